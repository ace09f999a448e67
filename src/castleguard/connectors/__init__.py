"""Sources and sinks: where rows come from and where published rows go, as Arrow tables.

`base` is the contract. `files` picks the module for a file name: `csv`, `jsonl`, `parquet`, `ipc`.
"""
