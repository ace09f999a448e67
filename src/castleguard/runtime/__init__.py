"""Parts of a running job: clock, retries, delivery and its schedule, epochs, status, stop flag."""
