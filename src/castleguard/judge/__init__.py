"""Judging what was published, from the outside: its structure, its information loss, what it gives away.

Nothing here knows the engine or the gate: a check that shares code with what it checks would share its mistakes. The
membership game runs streams, as anybody could, and looks at what comes out.
"""
