"""Reads the original and the published table, one value at a time."""
