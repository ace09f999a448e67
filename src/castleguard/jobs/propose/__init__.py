"""Proposes a job file from a sample of the data."""
