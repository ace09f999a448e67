"""Judge a publication from the outside: whether it keeps its promise, what it gives away, and what it is worth.

`reading`, `verify` and `attack` share no code with what they check, because they would share its mistakes. `publishing`
runs streams for the judgements that need new ones; all others work on tables.
"""
