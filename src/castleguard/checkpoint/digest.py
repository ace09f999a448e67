"""Digest over the columns of a checkpoint: keyed where the checkpoint has a key, plain otherwise.

The plain digest finds damage. The keyed one also finds a column that was changed on purpose without the key.
"""

import hashlib
from collections.abc import Iterable

Value = int | str | bytes | None


def digest_of(values: Iterable[Value], key: bytes | None = None) -> bytes:
    """32 bytes that change with any value, its type, its place and the number of values."""
    found = hashlib.blake2b(digest_size=32, key=key or b"")
    for value in values:
        tag, data = _encoded(value)
        found.update(tag + len(data).to_bytes(8, "big"))
        found.update(data)
    return found.digest()


def _encoded(value: Value) -> tuple[bytes, bytes]:
    if value is None:
        return b"n", b""
    if isinstance(value, bytes):
        return b"b", value
    if isinstance(value, str):
        return b"t", value.encode(errors="surrogateescape")
    return b"i", repr(value).encode()  # a damaged column may hold a float: that differs from any whole number
