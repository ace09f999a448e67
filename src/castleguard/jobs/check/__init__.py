"""Checklist of a job: its file and its environment, checked before it runs."""
