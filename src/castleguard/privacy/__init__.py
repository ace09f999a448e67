"""The guarantees themselves, independent of any stream: criteria, matching, the statement."""
