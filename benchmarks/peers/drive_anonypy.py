"""Anonymise a CSV file with AnonyPy's Mondrian: python drive_anonypy.py ROWS.csv OUT.csv K COLUMN..."""

import sys
import time

import anonypy
import pandas as pd


def main() -> None:
    """Write the bounds of every row, and print the seconds of processor time."""
    source, target, k, *columns = sys.argv[1:]
    rows = pd.read_csv(source)[columns]
    rows["one"] = pd.Categorical(["one"] * len(rows))  # it asks for a sensitive column
    start = time.process_time()
    groups = pd.DataFrame(anonypy.Preserver(rows, columns, "one").anonymize_k_anonymity(int(k)))
    seconds = time.process_time() - start
    published = pd.DataFrame()
    for column in columns:
        bounds = [text.split("-") for text in (value[0] for value in groups[column])]
        published[f"{column}_min"] = [float(each[0]) for each in bounds]
        published[f"{column}_max"] = [float(each[-1]) for each in bounds]
    published = published.loc[published.index.repeat(groups["count"])]
    published.to_csv(target, index=False)
    print(seconds)


main()
