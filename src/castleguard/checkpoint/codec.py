"""Snapshots and tables as bytes, and the digest over the columns of a checkpoint.

Snapshots are versioned and checksummed, and not pickled, so that reading one runs no code:

magic, format version | header length | header (JSON) | arrays and blobs end to end | SHA-256 of all before it

The plain digest of a checkpoint detects damage. With a key, the keyed digest also detects a deliberate change.
"""

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import SnapshotError

_MAGIC = b"CGSNAP"
_VERSION = 2
_PREFIX = struct.Struct(">6sHQ")
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Record:
    """Content of a snapshot: facts (JSON values), arrays, and blobs of bytes, each by name."""

    facts: dict[str, Any] = field(default_factory=dict, repr=False)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    blobs: dict[str, bytes] = field(default_factory=dict, repr=False)


Groups = Mapping[str, Mapping[str, NDArray[Any]]]
"""Arrays by the component of a stream that owns them, and by name."""


def flat(groups: Groups) -> dict[str, NDArray[Any]]:
    """Arrays by a single name such as "engine.quasi"."""
    return {f"{group}.{name}": array for group, arrays in groups.items() for name, array in arrays.items()}


def grouped(arrays: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """Undo `flat`."""
    groups: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        group, _, own = name.partition(".")
        groups.setdefault(group, {})[own] = array
    return groups


def pack(record: Record) -> bytes:
    """The record as bytes."""
    arrays = {name: np.ascontiguousarray(array) for name, array in record.arrays.items()}
    header = json.dumps(
        {
            "facts": record.facts,
            "arrays": [[name, array.dtype.str, array.shape] for name, array in arrays.items()],
            "blobs": [[name, len(blob)] for name, blob in record.blobs.items()],
        }
    ).encode()
    prefix = _PREFIX.pack(_MAGIC, _VERSION, len(header))
    parts: list[bytes | memoryview] = [
        prefix,
        header,
        *(array.data for array in arrays.values()),
        *record.blobs.values(),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])  # one copy: a snapshot holds all pending rows


def unpack(data: bytes) -> Record:
    """The record in `data`; raises SnapshotError if it is not a record, of another version, or damaged."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SnapshotError(f"a snapshot must be bytes, got {type(data).__name__}")
    if len(data) < _PREFIX.size + _DIGEST or data[: len(_MAGIC)] != _MAGIC:
        raise SnapshotError("this is not a castleguard snapshot")
    _, version, length = _PREFIX.unpack_from(data)
    if version != _VERSION:
        raise SnapshotError(
            f"the snapshot has format {version}, this version of castleguard reads format {_VERSION}: "
            f"flush or drain it with the version that wrote it"
        )
    body, digest = memoryview(data)[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise SnapshotError("the snapshot is damaged: its checksum does not match")
    header = json.loads(bytes(body[_PREFIX.size : _PREFIX.size + length]))
    at = _PREFIX.size + length
    arrays: dict[str, NDArray[Any]] = {}
    for name, kind, shape in header["arrays"]:
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, dtype=dtype, count=count, offset=at).reshape(shape).copy()
        at += count * dtype.itemsize
    blobs: dict[str, bytes] = {}
    for name, size in header["blobs"]:
        blobs[name] = bytes(body[at : at + size])
        at += size
    return Record(header["facts"], arrays, blobs)


def differences(mine: Mapping[str, Any], theirs: Mapping[str, Any], place: str = "") -> list[str]:
    """Differences of two descriptions, as dotted paths; empty if and only if they are equal."""
    found: list[str] = []
    for key in sorted({*mine, *theirs}):
        here = f"{place}.{key}" if place else str(key)
        if key not in mine or key not in theirs:
            found.append(here)
            continue
        one, other = mine[key], theirs[key]
        if one == other:
            continue
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += differences(one, other, here)
            continue
        named, others = _by_name(one), _by_name(other)
        if named is None or others is None or (named.keys() == others.keys() and list(named) != list(others)):
            found.append(here)  # not comparable item by item, or in another order
        else:
            found += differences(named, others, here)
    return found


def _by_name(items: object) -> dict[str, Any] | None:
    """A list of named items by name; None for anything else, or if a name occurs twice."""
    if not isinstance(items, list) or not all(isinstance(item, Mapping) and "name" in item for item in items):
        return None
    named = {str(item["name"]): item for item in items}
    return named if len(named) == len(items) else None


def table_to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    return bytes(table_to_buffer(table))


def table_to_buffer(table: pa.Table) -> pa.Buffer:
    """A table as an Arrow stream, without a copy."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def table_from_bytes(data: bytes) -> pa.Table:
    """The table in an Arrow stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


Value = int | str | bytes | None


def digest_of(values: Iterable[Value], key: bytes | None = None) -> bytes:
    """Digest of 32 bytes over the values, their types, their order and their number."""
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
    return b"i", repr(value).encode()  # a damaged column may hold a float, which differs from any integer
