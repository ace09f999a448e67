"""Anonymise a CSV file with ANJANA: python drive_anjana.py ROWS.csv OUT.csv K COLUMN...

Its method generalises whole columns by hierarchies. Here these are bins of 1/64 of the column's range, then of twice
that, and so on. At most 5 % of the rows may be suppressed.
"""

import sys
import time

import numpy as np
import pandas as pd
from anjana.anonymity import k_anonymity

MOST_SUPPRESSED = 5
BINS = (64, 32, 16, 8, 4, 2, 1)


def main() -> None:
    """Write the bounds of every row, and print the seconds of processor time."""
    source, target, k, *columns = sys.argv[1:]
    rows = pd.read_csv(source)[columns]
    hierarchies = {}
    for column in columns:
        values = rows[column].to_numpy(dtype=float)
        low, high = float(values.min()), float(values.max())
        levels = {0: values}
        for level, bins in enumerate(BINS, start=1):
            width = (high - low) / bins
            first = low + np.minimum((values - low) // width, bins - 1) * width
            levels[level] = np.array([f"{one!r}:{one + float(width)!r}" for one in first.tolist()])
        hierarchies[column] = levels
    start = time.process_time()
    found = k_anonymity(rows, [], columns, int(k), MOST_SUPPRESSED, hierarchies)
    seconds = time.process_time() - start
    published = pd.DataFrame()
    for column in columns:
        bounds = [str(value).split(":") for value in found[column]]
        published[f"{column}_min"] = [float(each[0]) for each in bounds]
        published[f"{column}_max"] = [float(each[-1]) for each in bounds]
    published.to_csv(target, index=False)
    print(seconds)


main()
