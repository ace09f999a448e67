"""The boxes that Citadel may use again (`reuse="narrow"`): published boxes of new groups of earlier releases."""

from __future__ import annotations

from dataclasses import dataclass

from .measure import Box, Domain, Row


@dataclass
class Entry:
    """A published box."""

    box: Box
    loss: float
    last_used: int  # number of its last admission or use, over all entries


class Library:
    """At most `room` boxes; the least recently used one makes room for another, which takes its place."""

    def __init__(self, domain: Domain, room: int) -> None:
        self.domain = domain
        self.room = room
        self.entries: list[Entry] = []
        self._uses = 0

    def containing(self, row: Row) -> list[Entry]:
        """The entries that hold the row's cells, by place."""
        return [entry for entry in self.entries if self.domain.holds(entry.box, row)]

    def use(self, entry: Entry) -> None:
        self._uses += 1
        entry.last_used = self._uses

    def admit(self, box: Box) -> None:
        """A group was published in this box."""
        for entry in self.entries:
            if entry.box == box:
                self.use(entry)
                return
        self._uses += 1
        new = Entry(box, self.domain.loss(box), self._uses)
        if len(self.entries) < self.room:
            self.entries.append(new)
        else:
            stalest = min(range(self.room), key=lambda place: self.entries[place].last_used)
            self.entries[stalest] = new
