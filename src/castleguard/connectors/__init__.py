"""Sources and sinks: where rows come from and where published rows go, as Arrow tables.

`base` is the contract. One file: `formats` picks the module for it, `csv`, `jsonl`, `parquet`, `ipc`. A job: `registry`
finds the connector that the job file names; `files` (with `file_source` and `file_sink`), `stdio`.
"""
