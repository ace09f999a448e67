"""Hosts: systems that own the loop, the partitions and the checkpoints themselves, with the same engine inside.

A host cuts a stream into shards. Each has an engine of its own, and what one shard publishes keeps the promise by
itself: shards never talk. `plan` says what is to be done, `routing` which row goes where, `order` in which order rows
are taken in, `shard` is one engine with its state as bytes, `promises` what the union of all shards promises. None of
them knows a host; `spark` is the one there is.
"""
