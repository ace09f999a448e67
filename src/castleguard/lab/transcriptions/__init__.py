"""Algorithms exactly as their papers print them, for experiments."""
