"""Sources and sinks: where rows come from and where published rows go, as Arrow tables.

`base` has the contracts. `formats` finds the codec of a format: `csv`, `jsonl`, `parquet`, `arrow`, each used by files,
pipes and messages (`payloads`). `registry` finds the connector that a job file names: `files`, `stdio`, `kafka`,
`nats`.
"""
