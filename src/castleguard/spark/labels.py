"""Labels of shards that Spark spreads evenly.

Spark sends a group to the partition that a hash of its key chooses. Of the keys 0, 1, 2 and 3 it puts three into one of
four partitions, and leaves two without any. So a shard's key is not its number, but the first number that Spark sends
to the partition of that number. If another version of Spark chose otherwise, nothing but the balance would be lost.
"""

from itertools import count

_SEED = 42  # Spark's own
_WORD = 0xFFFFFFFF


def labels_of(shards: int) -> list[int]:
    """A label for each shard, no two of them in the same of as many partitions."""
    found: dict[int, int] = {}
    for label in count():
        found.setdefault(_hash(label) % shards, label)
        if len(found) == shards:
            return [found[number] for number in range(shards)]
    raise AssertionError("numbers do not end")


def _hash(number: int) -> int:
    """MurmurHash3 of a whole number of 32 bits, as Spark's `hash` has it, with its sign."""
    mixed = _times(_rotated(_times(number, 0xCC9E2D51), 15), 0x1B873593)
    state = (_times(_rotated(_SEED ^ mixed, 13), 5) + 0xE6546B64) & _WORD
    state ^= 4  # bytes
    state = _times(state ^ (state >> 16), 0x85EBCA6B)
    state = _times(state ^ (state >> 13), 0xC2B2AE35)
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _times(first: int, second: int) -> int:
    return first * second & _WORD


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _WORD
