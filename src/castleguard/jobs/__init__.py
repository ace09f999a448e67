"""From a job file to a running job: assemble, propose, check, explain."""
