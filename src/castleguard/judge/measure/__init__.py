"""Measures of the utility of a published table."""
