"""Messages and releases of a site of dCASTLE (4.2), and the size of a message.

Bytes are counted once for each message that a site sends, as in Figure 3: 4 for each number (the two of an ID, the
size, two for a range, one for a node of a hierarchy), and for the sensitive column 1 for each of its declared values,
or 4 for each distinct value if none are declared. Forwarding by the relay and overhead of connections are not counted.
"""

from collections.abc import Hashable
from typing import Literal, NamedTuple

from castleguard.lab.transcriptions.dcastle.space import Box
from castleguard.schema.roles import Numeric, Schema

ClusterId = tuple[int, int]  # the site that created it, and its number there
Case = Literal[1, 2, 3, 4, 5, "message"]  # of dDelayConstraint (4.6), or a message about an output cluster
MessageKind = Literal["create", "output", "withdraw"]  # types 1, 2 and 3
ReleaseKind = Literal["new", "reuse", "root"]

_NUMBER = 4
_ENTRY = 1


class Record(NamedTuple):
    """One cluster in a message."""

    id: ClusterId
    size: int
    generalisation: Box
    values: frozenset[Hashable]  # of the sensitive column; {None} without one

    def __repr__(self) -> str:
        """Name of the cluster, never its content."""
        return f"Record({self.id}, size {self.size})"


class Message(NamedTuple):
    """Newly shared clusters, or one that was output, merged or split."""

    kind: MessageKind
    sender: int
    clusters: tuple[Record, ...]


class Release(NamedTuple):
    """Rows that a site outputs under one generalisation."""

    site: int
    case: Case
    kind: ReleaseKind
    cluster: ClusterId | None  # the output cluster; None if a row leaves alone
    rows: list[int]  # positions at the site, ascending
    box: Box
    loss: float  # summed over the attributes

    def __repr__(self) -> str:
        """Number of rows, never their content."""
        return f"Release(site {self.site}, case {self.case}, {self.kind}, {len(self.rows)} rows)"


class Step(NamedTuple):
    """Results of one event, in order."""

    releases: list[Release]
    messages: list[Message]


class Scale:
    """Sizes of messages, for one schema."""

    def __init__(self, schema: Schema) -> None:
        numbers = 3 + sum(2 if isinstance(role, Numeric) else 1 for role in schema.quasi_identifiers)
        labels = schema.sensitive[0].labels if schema.sensitive else None
        self._record = numbers * _NUMBER + (0 if labels is None else len(labels) * _ENTRY)
        self._sends_values = bool(schema.sensitive) and labels is None

    def bytes(self, message: Message) -> int:
        """The size of a message, as defined above."""
        total = self._record * len(message.clusters)
        if self._sends_values:
            total += sum(len(record.values) for record in message.clusters) * _NUMBER
        return total
