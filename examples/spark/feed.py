"""Made-up hospital visits as CSV files in a folder, one after the other, as a system that exports them would write.

Run it with `python feed.py incoming 10 1`: into which folder, how many files, and how many seconds apart.
"""

import sys
import time
from pathlib import Path

from pyarrow.csv import write_csv

from castleguard.testing.streams import visits

ROWS = 2_000


def main(folder: str, files: int, seconds: float) -> None:
    """Write so many files. Each has its final name only once it is complete."""
    Path(folder).mkdir(exist_ok=True)
    for number, rows in enumerate(visits(files * ROWS, seed=1, batch_rows=ROWS, flaws=0.01)):
        unfinished = Path(folder) / f".visits-{number:05}.csv"
        write_csv(rows, unfinished)
        unfinished.rename(Path(folder) / f"visits-{number:05}.csv")
        time.sleep(seconds)


if __name__ == "__main__":
    folder, files, seconds = [*sys.argv[1:4], *("incoming", "10", "1")[len(sys.argv) - 1 :]]
    main(folder, int(files), float(seconds))
