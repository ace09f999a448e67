"""Where a job stands, on disk: one SQLite file that holds the latest commit, and nothing older.

A commit is replaced as a whole or not at all, and is on the disk when `save` returns. The file holds raw personal data:
it is for its owner alone (0600), what is overwritten is wiped (secure_delete), and with a key all of it is encrypted.
One process at a time: whoever comes second is refused.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.private_file import make_private, open_private
from castleguard.errors import OutputError, SnapshotError, UnavailableError, UsageError

FORMAT = 2
_CHECK = b"castleguard"
_SQLITE = b"SQLite format 3\0"  # how every SQLite file begins
_PIECES = ("facts", "snapshot", "segment", "letters")

Ended = Literal["finished", "drained"]
"""Why a job has nothing left to do: its source ended, or it was drained."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One commit. Everything before it is published; nothing after it is."""

    number: int
    """Counts commits; the segment is delivered under it."""
    position: dict[str, Any] | None
    """Where the source goes on."""
    snapshot: bytes | None
    """The stream; None once it has been flushed for good."""
    segment: bytes = b""
    """The rows that this commit publishes, as an Arrow stream; empty if there are none."""
    letters: bytes = b""
    """The rows that this commit rejects, as lines of JSON."""
    letters_at: int = 0
    """The length of the dead letter file before them."""
    delivered: bool = False
    """Whether segment and letters have arrived."""
    ended: Ended | None = None
    books: dict[str, Any] = field(default_factory=dict)
    """The job in numbers: for whoever asks without opening the snapshot."""
    identity: dict[str, Any] = field(default_factory=dict)
    """What the job reads from and writes to: another job must not continue this one."""

    def __repr__(self) -> str:
        """Which one it is, never what is in it."""
        return f"Checkpoint(number={self.number}, delivered={self.delivered}, ended={self.ended})"


class Store:
    """The checkpoint file of one job, locked while it is open.

    With `read_only` it is only looked at: nothing is made or changed, and no lock is kept; `load` can be called, and
    nothing else. A job that is running is not disturbed, and cannot be looked at.
    """

    def __init__(self, path: str | Path, *, cipher: Cipher | None = None, read_only: bool = False) -> None:
        self._path = Path(path)
        self._cipher = cipher
        self._read_only = read_only
        self._is_blank = False  # nothing was ever written, and nothing is now
        self._prepare_file()
        with self._translated():
            name = f"{self._path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
            self._database = sqlite3.connect(name, uri=True, isolation_level=None, timeout=0.0)
        try:
            if not read_only:
                self._lock()
            self._check_format()
        except BaseException:
            self._database.close()
            raise

    def load(self) -> Checkpoint | None:
        """The latest commit, or None before the first."""
        if self._is_blank:
            return None
        with self._translated():
            row = self._database.execute(
                "SELECT state.id, number, delivered, ended, letters_at, facts, snapshot, segment, letters FROM latest "
                "LEFT JOIN state ON latest.id = state.id"
            ).fetchone()
        if row is None:
            return None
        state, number, delivered, ended, letters_at, *pieces = row
        if state is None:
            raise SnapshotError(f"{self._path} is no checkpoint, or it is damaged")
        facts, snapshot, segment, letters = (
            self._open(piece, name, number) for piece, name in zip(pieces, _PIECES, strict=True)
        )
        return Checkpoint(
            number=number,
            **json.loads(facts or b"{}"),
            snapshot=snapshot,
            segment=segment or b"",
            letters=letters or b"",
            letters_at=letters_at,
            delivered=bool(delivered),
            ended=ended,
        )

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the latest commit, durably. Raises OutputError; the former one then still stands."""
        with self._transaction():
            self._replace(checkpoint)

    def change_key(self, cipher: Cipher | None) -> None:
        """Go over to another key, or from or to none, in one transaction.

        Only after the stream was flushed for good and everything delivered: then the file holds no row and no secret of
        a stream, so that none is ever under a key that was given up, or under none. Raises UsageError before that.
        """
        latest = self.load()
        if latest is not None and (latest.snapshot is not None or not latest.delivered):
            raise UsageError(f"{self._path} holds rows that are pending or on their way: drain the job first")
        former = self._cipher
        try:
            with self._transaction():
                self._cipher = cipher
                self._database.execute("UPDATE lock SET sealed = ?", (self._proof(),))
                if latest is not None:
                    self._replace(latest)
        except BaseException:
            self._cipher = former
            raise

    def _replace(self, checkpoint: Checkpoint) -> None:
        facts = {name: getattr(checkpoint, name) for name in ("position", "books", "identity")}
        pieces = (json.dumps(facts).encode(), checkpoint.snapshot, checkpoint.segment, checkpoint.letters)
        plain = (checkpoint.number, checkpoint.delivered, checkpoint.ended, checkpoint.letters_at)
        sealed = [self._seal(piece, name, checkpoint.number) for name, piece in zip(_PIECES, pieces, strict=True)]
        facts_sealed, snapshot, *outgoing = sealed
        self._database.execute("DELETE FROM latest")
        self._database.execute("DELETE FROM state")
        self._database.execute("INSERT INTO latest VALUES (1, ?, ?, ?, ?, ?, ?, ?)", (*plain, facts_sealed, *outgoing))
        self._database.execute("INSERT INTO state VALUES (1, ?)", (snapshot,))

    def mark_delivered(self, checkpoint: Checkpoint) -> Checkpoint:
        """Segment and letters have arrived: they are wiped here."""
        with self._transaction():
            self._database.execute(
                "UPDATE latest SET delivered = 1, segment = NULL, letters = NULL WHERE number = ?",
                (checkpoint.number,),
            )
        return replace(checkpoint, delivered=True, segment=b"", letters=b"")

    def close(self) -> None:
        """Let another process have it. May be called twice."""
        self._database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare_file(self) -> None:
        """Make it, for its owner alone, before SQLite would; its journal gets the same rights. A file that is there is
        left as it is until it is known to be a checkpoint.
        """
        try:
            descriptor = os.open(self._path, os.O_RDONLY) if self._read_only else open_private(self._path)
            try:
                header = os.read(descriptor, len(_SQLITE))
            finally:
                os.close(descriptor)
        except OSError as exc:
            raise OutputError(f"{self._path} cannot be used as a checkpoint: {exc.strerror}") from exc
        if header.strip(b"\0") and header != _SQLITE:  # zeros: a power cut in the very first commit
            raise SnapshotError(f"{self._path} is no checkpoint, or it is damaged")

    def _lock(self) -> None:
        try:
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA secure_delete = ON")
            # Truncated with every commit: a journal that is only marked as done would keep the rows that were wiped.
            self._database.execute("PRAGMA journal_mode = TRUNCATE")
            self._database.execute("PRAGMA synchronous = EXTRA")
            self._database.execute("BEGIN EXCLUSIVE")
            self._database.execute("COMMIT")
        except sqlite3.OperationalError as exc:
            if "locked" in str(exc):
                raise UnavailableError(f"{self._path} is in use by another process: a job runs once") from exc
            raise OutputError(f"{self._path} cannot be used as a checkpoint: {exc}") from exc
        except sqlite3.DatabaseError as exc:
            raise SnapshotError(f"{self._path} is no checkpoint, or it is damaged") from exc

    def _check_format(self) -> None:
        with self._translated():
            found = self._database.execute("PRAGMA user_version").fetchone()[0]
            tables = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if found == 0 and tables:
            raise SnapshotError(f"{self._path} is no checkpoint, but a database of something else")
        if found not in (0, FORMAT):
            raise SnapshotError(
                f"{self._path} has format {found}, and this version reads {FORMAT}: drain the job with the version "
                f"that wrote it"
            )
        self._is_blank = found == 0 and self._read_only
        if self._is_blank:
            return
        if not self._read_only:
            try:
                make_private(self._path)
            except OSError as exc:
                raise OutputError(f"{self._path} cannot be used as a checkpoint: {exc.strerror}") from exc
        if found == 0:
            self._create()
        self._check_key()

    def _check_key(self) -> None:
        """Whether the key is the one that the file was sealed with. Its name is part of that."""
        with self._translated():
            sealed = self._database.execute("SELECT sealed FROM lock").fetchone()[0]
            latest = self._database.execute("SELECT facts, number FROM latest").fetchone()
        if sealed is None and self._cipher is None:
            return
        if sealed is None:
            raise SnapshotError(
                f"{self._path} is not encrypted, but a key is given: `castleguard drain --new-key`, with the job file "
                f"as it was, goes over to a key"
            )
        if self._cipher is None:
            raise SnapshotError(f"{self._path} is encrypted: give its key")
        if self._cipher.opens(sealed, self._path.name):
            return
        if latest is None:
            raise SnapshotError(
                f"{self._path} cannot be opened: another key, another name than it was made with, or it is damaged"
            )
        facts, number = latest
        if self._cipher.opens(facts, _label("facts", number)):
            raise SnapshotError(
                f"{self._path} has another name than it was made with, and an encrypted checkpoint is bound to its "
                f"name: give it the former one back"
            )
        raise SnapshotError(f"{self._path} cannot be opened: another key, or it is damaged")

    def _proof(self) -> bytes | None:
        """What opens with the key of the file alone; None if it has none."""
        return None if self._cipher is None else self._cipher.seal(_CHECK, self._path.name)

    def _create(self) -> None:
        with self._transaction():
            self._database.execute(
                "CREATE TABLE latest (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER, delivered INTEGER, "
                "ended TEXT, letters_at INTEGER, facts BLOB, segment BLOB, letters BLOB)"
            )
            # Apart: what changes a row writes all of it, and the snapshot is the larger part by far.
            self._database.execute("CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), snapshot BLOB)")
            self._database.execute("CREATE TABLE lock (sealed BLOB)")
            self._database.execute("INSERT INTO lock VALUES (?)", (self._proof(),))
            self._database.execute(f"PRAGMA user_version = {FORMAT}")

    def _seal(self, piece: bytes | None, name: str, number: int) -> bytes | None:
        if piece is None or self._cipher is None:
            return piece
        return self._cipher.seal(piece, _label(name, number))

    def _open(self, piece: bytes | None, name: str, number: int) -> bytes | None:
        if piece is None or self._cipher is None:
            return piece
        return self._cipher.open(piece, _label(name, number))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translated():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as exc:
            if self._read_only:
                raise self._not_now(exc) from exc
            raise OutputError(f"{self._path} cannot be written: {exc}") from exc
        except (sqlite3.DataError, OverflowError) as exc:
            raise OutputError(
                f"{self._path} cannot be written: the state of the stream is larger than a checkpoint can hold, about "
                f"1 GB; fewer rows wait with a smaller delay or max_wait"
            ) from exc
        except sqlite3.DatabaseError as exc:
            raise SnapshotError(f"{self._path} is no checkpoint, or it is damaged") from exc

    def _not_now(self, exc: sqlite3.OperationalError) -> UnavailableError:
        """Why it cannot be looked at."""
        if "locked" in str(exc):
            return UnavailableError(f"{self._path} is in use by another process: the job is running")
        # A journal that is to be rolled back, which needs the right to write.
        return UnavailableError(f"{self._path} was left in the middle of a commit: the next run mends that")


def _label(name: str, number: int) -> str:
    """What a piece is sealed as: it does not open as another one, or as that of another commit."""
    return f"{name} of commit {number}"
