"""Measures the utility of a published table."""
