"""From a job file to a running job: load, assemble, propose, check, explain."""
