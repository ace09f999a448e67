"""Algorithms, one folder each: a policy, its stages, and an engine that holds pending rows and groups them."""
