"""What the columns are, and how a batch of them becomes coded rows.

Read in this order: `roles` (what a column is), `hierarchy` and `grid` (what it may be published as), `coded` (what the
later stages see), `decode` (how a batch gets there; `numbers`, `categories` and `identities` do one kind of column
each), `table` (which objects are accepted as a batch).
"""
