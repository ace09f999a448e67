"""Parts of a running job: clock, delivery schedule, epochs, stop flag."""
