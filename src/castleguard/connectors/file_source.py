"""Files as the source of a job: one after the other, and with `follow` also those that come later."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from castleguard.connectors.base import Position, Read, Reader
from castleguard.connectors.listing import Listing
from castleguard.connectors.resumable import Mark, ResumableFile
from castleguard.errors import InputError

POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Clock:
    """Time that passes, and how to let it pass; a test brings its own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class FileSource:
    """The rows of all files of a listing, in the order of their names.

    A position is {"done": ..., "reading": ...}. "reading" is the mark of the file in the middle of which it stands.
    "done" is the name of the last file that was read to its end: everything up to it is done. Where files may arrive
    in any order it is the list of all of them instead.
    """

    def __init__(
        self,
        listing: Listing,
        open_reader: Callable[[Path], Reader],
        position: Position | None,
        *,
        follow: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """With `follow`, new files are waited for. Raises InputError if there is nothing to read, or if the file at the
        position is gone, has shrunk or is another one."""
        self._listing = listing
        self._open_reader = open_reader
        self._follow = follow
        self._clock = clock or Clock()
        self._looked_at = self._clock.now()
        done, mark = _parts_of(position)
        names = listing.names()
        self._in_any_order = follow or isinstance(done, list)
        self._done = _done_of(done, mark, names)
        self._file: ResumableFile | None = None
        if mark is not None:
            self._file = ResumableFile(listing.path(mark.name), mark.name, open_reader, mark)
        elif not names and not self._done and not follow:
            raise InputError(f"{listing.folder / listing.pattern} cannot be read: there is no file")
        self._waiting = self._unread(names)

    @property
    def finished(self) -> bool:
        """Whether all files have been read; never with `follow`."""
        return not self._follow and self._file is None and not self._waiting

    def read(self, timeout: float) -> Read | None:
        """The next rows of the file at hand, or of the next one; waits for a new file only with `follow`."""
        deadline = self._clock.now() + timeout
        while True:
            while self._open_next():
                if (found := self._read_file()) is not None:
                    return found
            wait = min(POLL_SECONDS, deadline - self._clock.now())
            if not self._follow or wait <= 0:
                return None
            self._clock.sleep(wait)

    def position(self) -> Position:
        """Where to resume."""
        mark = self._file.mark() if self._file is not None else None
        done = sorted(self._done) if self._in_any_order else max(self._done, default=None)
        return {"done": done, "reading": None if mark is None else mark._asdict()}

    def acknowledge(self, position: Position) -> None:
        """Do nothing: files stay where they are."""

    def lag(self) -> int | None:
        """0 when no file is waiting; how many rows the others have nobody knows before they are read."""
        return 0 if self._file is None and not self._waiting else None

    def close(self) -> None:
        """Close the file at hand."""
        if self._file is not None:
            self._file.close()

    def _read_file(self) -> Read | None:
        """The next rows of the file at hand; None, and no file at hand any more, when it has ended."""
        assert self._file is not None
        found = self._file.read()
        if found is None:
            self._file.close()
            self._done.add(self._file.name)
            self._file = None
        return found

    def _open_next(self) -> bool:
        """Make sure that a file is at hand; False if there is none to read."""
        while self._file is None:
            self._look()
            if not self._waiting:
                return False
            name = self._waiting[-1]
            path = self._listing.path(name)
            if path.exists() or not self._follow:  # one that was taken away again is none that was missed
                self._file = ResumableFile(path, name, self._open_reader)
            self._waiting.pop()  # not before it is open: a file that cannot be opened is not passed over
        return True

    def _look(self) -> None:
        """See which files there are, if they are followed and it is time to."""
        if not self._follow or (self._waiting and self._clock.now() - self._looked_at < POLL_SECONDS):
            return
        names = self._listing.names()
        self._looked_at = self._clock.now()
        if names:  # a folder without any file may be one that is not mounted: its files are not forgotten
            self._done.intersection_update(names)
        self._waiting = self._unread(names)

    def _unread(self, names: Sequence[str]) -> list[str]:
        """The files that are still to be opened, the next one last."""
        current = self._file.name if self._file is not None else None
        return [name for name in reversed(names) if name not in self._done and name != current]


def _parts_of(position: Position | None) -> tuple[str | list[str] | None, Mark | None]:
    """What a position holds: the files that are done, and the mark in the one that is not."""
    if position is None:
        return None, None
    if set(position) != {"done", "reading"}:
        raise InputError("the position to continue from is not one of files: the job had another source")
    reading = position["reading"]
    return position["done"], None if reading is None else Mark(**reading)


def _done_of(stored: str | list[str] | None, mark: Mark | None, names: Sequence[str]) -> set[str]:
    """The files that a position calls done. By one name: all up to it, or up to the file that was being read."""
    if isinstance(stored, list):
        return set(stored)
    last = mark.name if mark is not None else stored
    done = {name for name in names if last is not None and name <= last}
    if stored is not None:
        done.add(stored)  # whether the file is still there or not: the position must not go back
    return done if mark is None else done - {mark.name}
