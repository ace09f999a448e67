"""Several sites with disks that survive them, a relay that does what it likes, and a reader who counts everything.

A site here does what a job does with its stream: it stores a snapshot and what was handed out since the last one
together, delivers that, and says so to the stream. It may die at any moment, and then continues from its disk.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.books import Report
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.sites.memory_relay import Relay
from castleguard.sites.site_membership import Membership
from tests.site_stream import SiteStream

Row = dict[str, Any]
Moment = Literal["stored", "delivered"]
"""Where a site dies in a commit: after it was stored, or after that was delivered too."""

HIGHEST = 12
TREE = Hierarchy.from_mapping({"*": {"a": ["a1", "a2"], "b": ["b1", "b2", "b3"]}})
_UNDER = {"*": set(TREE.leaves), "a": {"a1", "a2"}, "b": {"b1", "b2", "b3"}} | {leaf: {leaf} for leaf in TREE.leaves}


def make_schema(*, persons: bool, sensitive: Sequence[str], category: bool) -> Schema:
    """A row's number is a public column: what is published can be traced back."""
    roles: list[Numeric | Categorical] = [Numeric("q", lower=0, upper=HIGHEST, step=3, null="root")]
    if category:
        roles.append(Categorical("c", hierarchy=TREE))
    return Schema(person="p" if persons else None, quasi_identifiers=roles, sensitive=list(sensitive), public=["row"])


class GossipingRelay(Relay):
    """One that can deliver anything again that was ever sent."""

    def __init__(self, *, seed: int) -> None:
        super().__init__(seed=seed)
        self._heard: list[tuple[str | None, bytes]] = []

    def send(self, sender: str, to: str | None, data: bytes) -> None:
        """See Relay."""
        self._heard.append((to, data))
        super().send(sender, to, data)

    def repeat(self, number: int) -> None:
        """Send an old message again; to all, if it was to all, its sender too."""
        if self._heard:
            to, data = self._heard[-1 - number % len(self._heard)]
            super().send("", to, data)


@dataclass(frozen=True, kw_only=True)
class Disk:
    """What survives a site."""

    snapshot: bytes | None = None
    read: int = 0
    """Rows of the source that the snapshot has seen."""
    segment: Sequence[pa.Table] = ()
    """To be delivered, unless it has been."""


@dataclass(kw_only=True)
class Reader:
    """Reader of all published rows, in the order of their delivery."""

    schema: Schema
    policy: Dcastle
    rows: dict[int, Row] = field(default_factory=dict)
    """All rows that any site has read, by their number."""
    published: set[int] = field(default_factory=set)
    _groups: dict[Any, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def read(self, site: str, tables: Iterable[pa.Table]) -> None:
        """Check what a site delivers: at every moment all groups are as promised."""
        for table in tables:
            touched = set()
            for told in table.to_pylist():
                row = self.rows[told["row"]]
                assert told["row"] not in self.published, "a row is published twice"
                self.published.add(told["row"])
                assert self._is_in_its_box(row, told)
                box = tuple(value for name, value in told.items() if name not in ("s", "row"))
                for group in (box,) if self.policy.k_scope == "global" else (box, (site, box)):
                    self._groups[group].append(row)
                    touched.add(group)
            for group in touched:
                self._check(self._groups[group])

    def _check(self, group: list[Row]) -> None:
        persons = {row["p"] if self.schema.person else row["row"] for row in group}
        assert len(persons) >= self.policy.k, f"{len(persons)} persons in a group"
        if self.policy.l > 1:
            values = {row["s"] for row in group}
            assert len(values) >= self.policy.l, f"{len(values)} values in a group"

    @staticmethod
    def _is_in_its_box(row: Row, told: Row) -> bool:
        if row["q"] is None:
            return bool((told["q_min"], told["q_max"]) == (0, HIGHEST) and told.get("c", "*") == "*")
        return bool(told["q_min"] <= row["q"] <= told["q_max"] and ("c" not in told or row["c"] in _UNDER[told["c"]]))


class Site:
    """One site, with its source and its disk."""

    def __init__(self, name: str, names: tuple[str, ...], relay: Relay, reader: Reader) -> None:
        self.name = name
        self.source: list[Row] = []
        self._names = names
        self._transport = relay.join(name)
        self._reader = reader
        self._disk = Disk()
        self._starts = 0
        self.start()

    def start(self) -> None:
        """Begin, or die and begin again: what is not on the disk never was."""
        self._starts += 1
        self._deliver()
        member = Membership(name=self.name, sites=self._names, key=b"shared", epoch=f"{self._starts:04d}")
        self.stream = SiteStream(self._reader.schema, self._reader.policy, member, self._transport, seed=self._starts)
        if self._disk.snapshot is not None:
            self.stream.resume(self._disk.snapshot)
        self._read = self._disk.read
        self._handed_out: list[pa.Table] = []

    @property
    def unread(self) -> int:
        """Rows of the source that are still to be read, maybe again."""
        return len(self.source) - self._read

    def push(self, most: int, now: float) -> None:
        """Read rows."""
        rows = self.source[self._read : self._read + most]
        self._reader.rows |= {row["row"]: row for row in rows}
        names = self._reader.schema.columns
        table = pa.table({name: [row[name] for row in rows] for name in names})
        self._handed_out.append(self.stream.push(table, now=now))
        self._read += len(rows)
        self._check()

    def tick(self, now: float) -> None:
        """Let time pass."""
        self._handed_out.append(self.stream.tick(now))
        self._check()

    def flush(self) -> None:
        """The end."""
        self._handed_out.append(self.stream.flush())
        assert self._check().pending == 0

    def commit(self, dies: Moment | None = None) -> None:
        """As `pipeline.Job.commit` does it; the site may die on the way."""
        self._disk = Disk(snapshot=self.stream.snapshot(), read=self._read, segment=tuple(self._handed_out))
        self._handed_out = []
        if dies == "stored":
            self.start()
            return
        self._deliver()
        if dies == "delivered":
            self.start()
            return
        self.stream.coordinator.committed()
        self._check()

    def _deliver(self) -> None:
        self._reader.read(self.name, self._disk.segment)
        self._disk = Disk(snapshot=self._disk.snapshot, read=self._disk.read)

    def _check(self) -> Report:
        """The books balance, or `report` raises; and no row waits longer than it may."""
        report = self.stream.report()
        assert report.rows_in == self._read
        assert report.oldest_wait <= self._reader.policy.delay
        assert report.gate_refused == 0
        return report
