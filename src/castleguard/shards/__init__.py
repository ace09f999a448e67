"""Shards: streams inside a host, a system that owns the loop, the partitions and the checkpoints itself.

A host cuts a stream into shards. Each shard has its own engine and keeps the guarantee alone: shards never communicate.
`plan` describes the work, `routing` assigns rows to shards, `order` fixes the order of rows, `shard` is one engine with
its state as bytes, and `promises` states the guarantee of all shards together. No module here depends on a host; the
only host so far is `spark`.
"""
