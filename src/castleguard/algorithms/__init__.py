"""Engines hold the pending rows and decide what leaves, and in which group."""
