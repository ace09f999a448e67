"""Files as the source of a job: one after another, and with `follow` also files that arrive later."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from castleguard.connectors.base import Position, Read, Reader
from castleguard.connectors.done_files import DoneFiles
from castleguard.connectors.listing import Listing
from castleguard.connectors.resumable import ResumableFile
from castleguard.errors import InputError

POLL_SECONDS = 0.2
CHECK_SECONDS = 10.0  # between two checks of files that are done


@dataclass(frozen=True)
class Clock:
    """Monotonic time and sleep; tests inject their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class FileSource:
    """The rows of all files of a listing, in the order of their names.

    A position is the state of `DoneFiles` and "reading", the mark of a file that has been read in part.
    """

    def __init__(
        self,
        listing: Listing,
        open_reader: Callable[[Path], Reader],
        position: Position | None,
        *,
        follow: bool = False,
        appended: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """With `follow`, wait for new files. `appended`: files of this format can grow, so the last one is read
        further if it has grown since its end was reached. Raises InputError if there is nothing to read, or if the file
        at the position is gone, has shrunk or is another one.
        """
        self._listing = listing
        self._open_reader = open_reader
        self._follow = follow
        self._clock = clock or Clock()
        self._listed_at = self._checked_at = self._clock.now()
        names = listing.names()
        self._done = DoneFiles(listing, names, position, in_any_order=follow)
        mark = self._done.reading or (self._done.reopen() if appended else None)
        self._file: ResumableFile | None = None
        if mark is not None:
            self._file = ResumableFile(listing.path(mark.name), mark.name, open_reader, mark)
        elif not names and not self._done and not follow:
            raise InputError(f"{listing.folder / listing.pattern} cannot be read: no such file")
        self._done.log_changes(names)
        self._waiting = self._unread(names)

    @property
    def finished(self) -> bool:
        """Whether all files have been read; never with `follow`."""
        return not self._follow and self._file is None and not self._waiting

    def read(self, timeout: float) -> Read | None:
        """The next rows of the current file, or of the next one; waits for a new file only with `follow`."""
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
        """Position after the rows that were read."""
        return self._done.position(None if self._file is None else self._file.mark())

    def acknowledge(self, position: Position) -> None:
        """Do nothing: files stay where they are."""

    def lag(self) -> int | None:
        """0 when no file is waiting; the number of rows in waiting files is unknown."""
        return 0 if self._file is None and not self._waiting else None

    def close(self) -> None:
        """Close the current file."""
        if self._file is not None:
            self._file.close()

    def _read_file(self) -> Read | None:
        """The next rows of the current file; None at its end, when it is no longer current."""
        assert self._file is not None
        found = self._file.read()
        if found is None:
            self._file.close()
            self._done.add(self._file.end_mark())
            self._file = None
        return found

    def _open_next(self) -> bool:
        """Open the next file unless one is open; False if there is none to read."""
        while self._file is None:
            self._list_new()
            if not self._waiting:
                return False
            name = self._waiting[-1]
            path = self._listing.path(name)
            if path.exists() or not self._follow:  # a file that was removed again has not been missed
                self._file = ResumableFile(path, name, self._open_reader)
            self._waiting.pop()  # not before it is open: a file that cannot be opened must not be skipped
        return True

    def _list_new(self) -> None:
        """List the files again, if they are followed and it is time to."""
        if not self._follow or (self._waiting and self._clock.now() - self._listed_at < POLL_SECONDS):
            return
        names = self._listing.names()
        self._listed_at = self._clock.now()
        if names:  # an empty folder may be one that is not mounted: keep its files
            self._done.keep(names)
        if self._clock.now() - self._checked_at >= CHECK_SECONDS:
            self._done.log_changes(names)
            self._checked_at = self._clock.now()
        self._waiting = self._unread(names)

    def _unread(self, names: Sequence[str]) -> list[str]:
        """The files still to be opened, the next one last."""
        current = self._file.name if self._file is not None else None
        return [name for name in reversed(names) if name not in self._done and name != current]
