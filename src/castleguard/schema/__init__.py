"""Roles of columns, and decoding of batches into coded rows.

Read in this order: `roles`; `hierarchy` and `grid` (published forms of a column); `coded` (rows as later stages see
them); `decode`, with `numbers`, `categories` and `identities` for one kind of column each; `table` (objects accepted
as a batch).
"""
