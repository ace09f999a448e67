"""Messages between sites. Every message may be lost, duplicated, late or out of order.

A message is a record of the snapshot codec (facts, arrays, blobs; no pickle), sealed with a key that the sites share
and the relay does not have. Quasi-identifiers and persons are never sent: a row consists of its published columns, a
keyed hash of its person, and the codes of its sensitive values.
"""

import zlib
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.checkpoint.codec import Record, pack, table_from_bytes, table_to_bytes, unpack
from castleguard.errors import SnapshotError

Bounds = NDArray[np.float64]

FORMAT = 2


class Seal(Protocol):
    """Encryption between sites; see `checkpoint.cipher.Cipher`."""

    def seal(self, piece: bytes, label: str) -> bytes:
        """Encrypt."""

    def open(self, sealed: bytes, label: str) -> bytes:
        """Decrypt; raises SnapshotError."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows offered to the site that publishes them."""

    tokens: NDArray[np.uint64]
    """(rows,) keyed hashes of the persons; without a person column, site and number of the row."""
    values: NDArray[np.int64]
    """(rows, sensitive columns) codes."""
    payload: pa.Table
    """Sensitive and public columns as published."""
    levels: NDArray[np.int64]
    """(rows,) index of the smallest proposed box that contains the row; OUTSIDE if none does. Ascending, because a
    verdict takes the first rows of an offer."""

    def __repr__(self) -> str:
        """Show the number of rows, never their values."""
        return f"Rows({self.tokens.size})"


@dataclass(frozen=True, eq=False, kw_only=True)
class Message:
    """Base of all messages. `epoch` identifies the start of the sender's process."""

    sender: str
    epoch: str
    agreed: str
    """`Membership.agreement` of the sender: messages with another one are ignored."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Hello(Message):
    """The sender has started: its messages of earlier epochs are void."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Share(Message):
    """The current state of a cluster of the sender; `version` grows with every message about it."""

    cluster: int
    version: int
    persons: int
    lower: Bounds
    upper: Bounds


@dataclass(frozen=True, eq=False, kw_only=True)
class Retract(Message):
    """Clusters of the sender that are gone."""

    clusters: list[int]


@dataclass(frozen=True, eq=False, kw_only=True)
class Join(Message):
    """The sender asks the receiver to release this cluster together with rows of the sender."""

    cluster: int
    version: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepare(Message):
    """The sender coordinates a release and asks for rows in its boxes."""

    release: str
    lower: Bounds
    """(boxes, columns) nested boxes, the smallest first: the smallest one that satisfies k and l is published."""
    upper: Bounds
    losses: NDArray[np.float64]
    cluster: int
    """The sender's cluster behind the release: sites that asked to join it also offer rows outside the boxes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared(Message):
    """The sender's rows for a release, locked until it is decided; `rows` is None if it has none."""

    release: str
    offer: str = ""
    """Name of this offer, used by the record on the log."""
    rows: Rows | None = None
    lower: Bounds = field(default_factory=lambda: np.empty(0))
    """Bounds of the rows outside all boxes; empty if there are none."""
    upper: Bounds = field(default_factory=lambda: np.empty(0))
    otherwise: float = 1.0
    """Estimated information loss of the rows without the release."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Decided(Message):
    """A release has been decided: the verdict is on the log."""

    release: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Published(Message):
    """Boxes that the sender has published with k persons and l values: others may reuse them."""

    heard: dict[str, str]
    """Latest epochs of the other sites known to the sender: a receiver ignores a message that lacks its own."""
    lower: NDArray[np.float64]
    """(boxes, columns)"""
    upper: NDArray[np.float64]


KINDS: dict[str, type[Message]] = {
    kind.__name__.lower(): kind for kind in (Hello, Share, Retract, Join, Prepare, Prepared, Decided, Published)
}


def encode(message: Message, seal: Seal | None = None) -> bytes:
    """Encode a message, sealed if a seal is given."""
    facts: dict[str, Any] = {"format": FORMAT, "kind": type(message).__name__.lower()}
    arrays: dict[str, NDArray[Any]] = {}
    blobs: dict[str, bytes] = {}
    for name, value in vars(message).items():
        if isinstance(value, Rows):
            arrays |= {"tokens": value.tokens, "values": value.values, "levels": value.levels}
            blobs["payload"] = table_to_bytes(value.payload)
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            facts[name] = value
    data = zlib.compress(pack(Record(facts, arrays, blobs)), 1)
    return data if seal is None else seal.seal(data, _LABEL)


def decode(data: bytes, seal: Seal | None = None) -> Message:
    """Decode a message. Raises SnapshotError if it is damaged, of another version, or sealed with another key."""
    try:
        record = unpack(zlib.decompress(data if seal is None else seal.open(data, _LABEL)))
    except zlib.error as exc:
        raise SnapshotError("the message cannot be read") from exc
    facts = dict(record.facts)
    format, kind = facts.pop("format", None), KINDS.get(str(facts.pop("kind", None)))
    if format != FORMAT or kind is None:
        raise SnapshotError("the message is of another version: run the same version at all sites")
    arrays = dict(record.arrays)
    try:
        if "payload" in record.blobs:
            payload = table_from_bytes(record.blobs["payload"])
            facts["rows"] = Rows(arrays.pop("tokens"), arrays.pop("values"), payload, arrays.pop("levels"))
        everything: dict[str, Any] = {**facts, **arrays}
        return kind(**everything)
    except (TypeError, KeyError, pa.ArrowException) as exc:
        raise SnapshotError("the message is incomplete: run the same version at all sites") from exc


_LABEL = "a message between sites"
