"""Judging what was published, from the outside: its structure, its information loss.

Nothing here knows the engine or the gate: a check that shares code with what it checks would share its mistakes.
"""
