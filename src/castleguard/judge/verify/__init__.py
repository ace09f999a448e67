"""Checks the promise against what was published."""
