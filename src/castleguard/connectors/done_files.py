"""Files of a source that have been read to their end, and changes to them afterwards.

A file that is done is not opened again, so rows added to it later would be missed. If the last file of a source that
ends has grown, reading continues there; any other change is logged.
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
    """The files that are done, in the form of a position.

    Where files are read in the order of their names, "done" is the name of the last one and covers everything up to it;
    "ended" is its mark, and "newest" the latest modification time of them all. Where files may arrive in any order,
    "done" has the size of each of them instead.
    """

    def __init__(
        self, listing: Listing, names: Sequence[str], position: Position | None, *, in_any_order: bool
    ) -> None:
        """`names` are the existing files. Raises InputError if the position is not one of files."""
        self._listing = listing
        stored: dict[str, Any] = {"done": None, "ended": None, "newest": 0, "reading": None}
        if position is not None:
            if set(position) != set(stored):
                raise InputError("the position to restore is not that of a file source: the job had another source")
            stored = position
        self.reading = None if stored["reading"] is None else Mark(**stored["reading"])
        self.ended = None if stored["ended"] is None else Mark(**stored["ended"])
        self._newest = int(stored["newest"])
        self._logged: set[str] = set()
        done = stored["done"]
        self.in_any_order = in_any_order or isinstance(done, dict)
        self._sizes: dict[str, int] = dict(done) if isinstance(done, dict) else self._up_to(done, names)

    def __contains__(self, name: str) -> bool:
        return name in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, mark: Mark) -> None:
        """Add a file that has been read to its end."""
        self._sizes[mark.name] = mark.size
        self.reading, self.ended = None, mark
        try:
            self._newest = max(self._newest, os.stat(self._listing.path(mark.name)).st_mtime_ns)
        except OSError:  # it may be removed as soon as it is done
            return

    def reopen(self) -> Mark | None:
        """The mark of the file that ended last, if it has grown since: it is then no longer done.

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
                f"{path} cannot be read after row {mark.rows}: its last line had no end and has grown since. Move the "
                f"added text into a new file, and truncate this one to {mark.size} bytes"
            )
        self._sizes.pop(mark.name, None)
        self.ended = None
        return mark

    def keep(self, names: Iterable[str]) -> None:
        """Forget all other files: they are gone."""
        self._sizes = {name: self._sizes[name] for name in names if name in self._sizes}

    def position(self, reading: Mark | None) -> Position:
        """The position, where `reading` is the mark of the current file."""
        if self.in_any_order:
            done: object = dict(sorted(self._sizes.items()))
            return {"done": done, "ended": None, "newest": 0, "reading": _as_json(reading)}
        ended = self.ended if reading is None else None
        return {
            "done": max(self._sizes, default=None),
            "ended": _as_json(ended),
            "newest": self._newest,
            "reading": _as_json(reading),
        }

    def log_changes(self, names: Sequence[str]) -> None:
        """Warn once about each file that changed after it was done."""
        found = [name for name in names if name in self._sizes and name not in self._logged and self._has_changed(name)]
        if found:
            self._logged.update(found)
            _log.warning(
                "%s%s changed or appeared after the files up to that name were read: added rows are not read. Put new "
                "rows into new files whose names sort after the others",
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
        """The files that are done: all up to the stored name, or up to the file that was being read."""
        last = self.reading.name if self.reading is not None else stored
        done = {name: self._size(name) for name in names if last is not None and name <= last}
        if stored is not None:
            done.setdefault(stored, 0)  # even if the file is gone: the position must not go back
        if self.reading is not None:
            done.pop(self.reading.name, None)
        return done

    def _size(self, name: str) -> int:
        try:
            return os.stat(self._listing.path(name)).st_size
        except OSError:
            return 0


def _as_json(mark: Mark | None) -> dict[str, Any] | None:
    return None if mark is None else mark._asdict()
