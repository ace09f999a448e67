"""State of a job that survives its process: snapshots as bytes, the checkpoint store, dead letters."""
