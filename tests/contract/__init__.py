"""The suites that every source and every sink of a job passes.

A connector joins by an adapter: a subclass of `SourceAdapter` or `SinkAdapter` and its entry in SOURCES or SINKS.
"""
