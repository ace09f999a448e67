"""Labels of shards that Spark distributes evenly over partitions.

Spark assigns a group to a partition by a hash of its key. With the keys 0 to 3 and four partitions, one partition gets
three shards and two get none. A shard's key is therefore the smallest number that Spark assigns to the partition of the
shard. If another version of Spark hashes differently, only the balance suffers.
"""

from itertools import count

_SEED = 42  # Spark's
_WORD = 0xFFFFFFFF


def labels_of(shards: int) -> list[int]:
    """Return a label for each shard, each in another of `shards` partitions."""
    found: dict[int, int] = {}
    for label in count():
        found.setdefault(_hash(label) % shards, label)
        if len(found) == shards:
            return [found[number] for number in range(shards)]
    raise AssertionError("unreachable")


def _hash(number: int) -> int:
    """Return the signed 32-bit MurmurHash3 of a 32-bit integer, like Spark's `hash`."""
    mixed = _times(_rotate(_times(number, 0xCC9E2D51), 15), 0x1B873593)
    state = (_times(_rotate(_SEED ^ mixed, 13), 5) + 0xE6546B64) & _WORD
    state ^= 4  # bytes
    state = _times(state ^ (state >> 16), 0x85EBCA6B)
    state = _times(state ^ (state >> 13), 0xC2B2AE35)
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _times(first: int, second: int) -> int:
    return first * second & _WORD


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _WORD
