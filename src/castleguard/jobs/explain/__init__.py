"""Explains what a job does and promises, in sections of sentences."""
