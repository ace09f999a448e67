"""Judging what was published, from the outside: is the promise kept, what does it give away, what is it worth.

`reading`, `verify` and `attack` share no code with what they check: they would share its mistakes. `publishing` runs
streams for those judgements that need new ones, and the others look at what comes out.
"""
