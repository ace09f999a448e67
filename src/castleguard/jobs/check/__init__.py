"""The checklist of a job: its file, and the world around it, looked at before anything runs."""
