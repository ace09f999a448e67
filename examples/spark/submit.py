"""A job by spark-submit, which starts Python files: `spark-submit --master spark://host:7077 submit.py job.yaml`."""

import sys

from castleguard.cli import main

if __name__ == "__main__":
    main(["spark", *sys.argv[1:]])
