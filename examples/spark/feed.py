"""Made-up hospital visits as CSV files in a folder, written one after the other like an export.

Run it with `python feed.py incoming 10 1`: folder, number of files, and seconds between them.
"""

import sys
import time
from pathlib import Path

from pyarrow.csv import write_csv

from castleguard.testing.streams import visits

ROWS = 2_000


def main(folder: str, files: int, seconds: float) -> None:
    """Write the files. Each gets its final name once it is complete."""
    Path(folder).mkdir(exist_ok=True)
    for number, rows in enumerate(visits(files * ROWS, seed=1, batch_rows=ROWS, flaws=0.01)):
        unfinished = Path(folder) / f".visits-{number:05}.csv"
        write_csv(rows, unfinished)
        unfinished.rename(Path(folder) / f"visits-{number:05}.csv")
        time.sleep(seconds)


if __name__ == "__main__":
    folder, files, seconds = [*sys.argv[1:4], *("incoming", "10", "1")[len(sys.argv) - 1 :]]
    main(folder, int(files), float(seconds))
