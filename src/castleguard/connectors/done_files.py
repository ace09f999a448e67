"""Which files of a source have been read to their end, and whether something happened to them afterwards.

A file that is done is not opened again, so rows that come into it later are rows that nobody reads. That must not go
unnoticed: the last file of a source that ends is read on if it has grown, and whatever else changes is told.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any

from castleguard.connectors.base import Position
from castleguard.connectors.listing import Listing
from castleguard.connectors.resumable import Mark, changed_since, grew_within_line
from castleguard.errors import InputError

_log = logging.getLogger(__name__)


class DoneFiles:
    """The files that are done, as a position has them.

    Where files are read in the order of their names, "done" is the name of the last one, and everything up to it is
    done; "ended" is its mark, and "newest" the latest time of writing that one of them had. Where files may arrive
    in any order, "done" has the size of each of them instead.
    """

    def __init__(
        self, listing: Listing, names: Sequence[str], position: Position | None, *, in_any_order: bool
    ) -> None:
        """`names` are the files that are there. Raises InputError if the position is not one of files."""
        self._listing = listing
        stored: dict[str, Any] = {"done": None, "ended": None, "newest": 0, "reading": None}
        if position is not None:
            if set(position) != set(stored):
                raise InputError("the position to continue from is not one of files: the job had another source")
            stored = position
        self.reading = None if stored["reading"] is None else Mark(**stored["reading"])
        self.ended = None if stored["ended"] is None else Mark(**stored["ended"])
        self._newest = int(stored["newest"])
        self._told: set[str] = set()
        done = stored["done"]
        self.in_any_order = in_any_order or isinstance(done, dict)
        self._sizes: dict[str, int] = dict(done) if isinstance(done, dict) else self._up_to(done, names)

    def __contains__(self, name: str) -> bool:
        return name in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, mark: Mark) -> None:
        """A file has been read to its end."""
        self._sizes[mark.name] = mark.size
        self.reading, self.ended = None, mark
        try:
            self._newest = max(self._newest, os.stat(self._listing.path(mark.name)).st_mtime_ns)
        except OSError:  # it may be gone as soon as it is done
            return

    def reopen(self) -> Mark | None:
        """Where to read on in the file that ended last, if it has grown since: it is then no longer done.

        Raises InputError if its last line has grown.
        """
        mark = self.ended
        if mark is None or self.reading is not None or self.in_any_order:
            return None
        path = self._listing.path(mark.name)
        if changed_since(path, mark) != "grown":
            return None
        if grew_within_line(path, mark):
            raise InputError(
                f"{path} cannot be read on after row {mark.rows}: its last line had no end, and has grown since. Put "
                f"what was added into a file of its own, and cut this one back to {mark.size} bytes"
            )
        self._sizes.pop(mark.name, None)
        self.ended = None
        return mark

    def keep(self, names: Iterable[str]) -> None:
        """Forget all others: they are gone."""
        self._sizes = {name: self._sizes[name] for name in names if name in self._sizes}

    def position(self, reading: Mark | None) -> Position:
        """What a position says, while `reading` is the mark of the file at hand."""
        if self.in_any_order:
            done: object = dict(sorted(self._sizes.items()))
            return {"done": done, "ended": None, "newest": 0, "reading": _plain(reading)}
        ended = self.ended if reading is None else None
        return {
            "done": max(self._sizes, default=None),
            "ended": _plain(ended),
            "newest": self._newest,
            "reading": _plain(reading),
        }

    def tell_changes(self, names: Sequence[str]) -> None:
        """Warn of the files that have changed after they were done, of each of them once."""
        found = [name for name in names if name in self._sizes and name not in self._told and self._has_changed(name)]
        if found:
            self._told.update(found)
            _log.warning(
                "%s%s changed, or came, after the files up to there were read: what was added is not read. Put new "
                "rows into files of their own, whose names come after the others",
                self._listing.path(found[0]),
                f" and {len(found) - 1} more" if len(found) > 1 else "",
            )

    def _has_changed(self, name: str) -> bool:
        path = self._listing.path(name)
        if self.ended is not None and name == self.ended.name:
            return changed_since(path, self.ended) != "no"
        try:
            found = os.stat(path)
        except OSError:
            return False
        return found.st_size != self._sizes[name] if self.in_any_order else found.st_mtime_ns > self._newest

    def _up_to(self, stored: str | None, names: Sequence[str]) -> dict[str, int]:
        """The files that one name says are done: all up to it, or up to the file that was being read."""
        last = self.reading.name if self.reading is not None else stored
        done = {name: self._size(name) for name in names if last is not None and name <= last}
        if stored is not None:
            done.setdefault(stored, 0)  # whether the file is still there or not: the position must not go back
        if self.reading is not None:
            done.pop(self.reading.name, None)
        return done

    def _size(self, name: str) -> int:
        try:
            return os.stat(self._listing.path(name)).st_size
        except OSError:
            return 0


def _plain(mark: Mark | None) -> dict[str, Any] | None:
    return None if mark is None else mark._asdict()
