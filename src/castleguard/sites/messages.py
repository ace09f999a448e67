"""What sites tell one another. Every message may be lost, doubled, late or out of order.

A message is a record of the snapshot codec (facts, arrays, blobs; no pickle), sealed with the key that the sites share
and the relay does not have. Quasi-identifiers and persons never travel: a row is what would be published of it, a
keyed hash that stands for its person, and the codes of its sensitive values.
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
    """Rows on their way to the site that publishes them."""

    tokens: NDArray[np.uint64]
    """(rows,) keyed hashes of the persons; without a person column, the site and the number of the row."""
    values: NDArray[np.int64]
    """(rows, sensitive columns) codes."""
    payload: pa.Table
    """Sensitive and public columns, as they are published."""
    levels: NDArray[np.int64]
    """(rows,) the smallest of the proposed boxes that a row lies in; OUTSIDE, if it lies in none. Never falls: whoever
    takes some of the rows takes the first ones."""

    def __repr__(self) -> str:
        """How many, never what is in them."""
        return f"Rows({self.tokens.size})"


@dataclass(frozen=True, eq=False, kw_only=True)
class Message:
    """One of the kinds below. `sender` and `epoch` say who sends it, and since which start of its process."""

    sender: str
    epoch: str
    agreed: str
    """See `Membership.agreement`: whoever has agreed on something else is not heard."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Hello(Message):
    """A site has started: what it said in an earlier epoch is void."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Share(Message):
    """A cluster of the sender as it is now; `version` grows with every change that is told."""

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
    """The sender has rows that cannot leave alone: please release this cluster of yours together with them."""

    cluster: int
    version: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepare(Message):
    """Who has rows in this box? The sender coordinates a release of it."""

    release: str
    lower: Bounds
    """(boxes, columns) one inside the other, the smallest first: as many are taken as k and l need."""
    upper: Bounds
    losses: NDArray[np.float64]
    cluster: int
    """The cluster of the sender that it is made of: whoever asked to join that brings rows from around it too."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared(Message):
    """The sender's rows for a release, locked until it is decided; none, if it has none."""

    release: str
    offer: str = ""
    """The name of this answer: the record on the log says by it whose rows are taken."""
    rows: Rows | None = None
    lower: Bounds = field(default_factory=lambda: np.empty(0))
    """Of the rows outside; nothing, if there are none."""
    upper: Bounds = field(default_factory=lambda: np.empty(0))
    otherwise: float = 1.0
    """About what the rows would lose where they are."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Decided(Message):
    """A release has been decided: the log says how."""

    release: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Published(Message):
    """Boxes that the sender has published with their k persons and l values: others may use them."""

    heard: dict[str, str]
    """Of which epochs of the other sites the sender has heard: who finds its own there knows that this is no old
    message."""
    lower: NDArray[np.float64]
    """(boxes, columns)"""
    upper: NDArray[np.float64]


KINDS: dict[str, type[Message]] = {
    kind.__name__.lower(): kind for kind in (Hello, Share, Retract, Join, Prepare, Prepared, Decided, Published)
}


def encode(message: Message, seal: Seal | None = None) -> bytes:
    """The message as bytes, sealed if there is a key."""
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
    """The message in `data`. Raises SnapshotError if it is none, damaged, of another version or of another key."""
    try:
        record = unpack(zlib.decompress(data if seal is None else seal.open(data, _LABEL)))
    except zlib.error as exc:
        raise SnapshotError("a message that cannot be read") from exc
    facts = dict(record.facts)
    format, kind = facts.pop("format", None), KINDS.get(str(facts.pop("kind", None)))
    if format != FORMAT or kind is None:
        raise SnapshotError("a message of another version: all sites of a job run the same one")
    arrays = dict(record.arrays)
    try:
        if "payload" in record.blobs:
            payload = table_from_bytes(record.blobs["payload"])
            facts["rows"] = Rows(arrays.pop("tokens"), arrays.pop("values"), payload, arrays.pop("levels"))
        everything: dict[str, Any] = {**facts, **arrays}
        return kind(**everything)
    except (TypeError, KeyError, pa.ArrowException) as exc:
        raise SnapshotError("a message that lacks something: all sites of a job run the same version") from exc


_LABEL = "a message between sites"
