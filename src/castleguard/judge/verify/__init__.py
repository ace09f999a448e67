"""Check the promise against the published table."""
