"""Checkpoint of a job: one SQLite file that holds the latest commit and nothing older.

A commit is replaced completely or not at all, and is on disk when `save` returns. The file holds raw personal data: it
is private to its owner (0600), overwritten data is wiped (secure_delete), and with a key everything is encrypted. A
digest covers every column and is checked before anything is used (`codec.py`): a damaged file is refused. Only one
process at a time may open the file.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from castleguard.checkpoint import former
from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.codec import Value, digest_of
from castleguard.durable import make_private, open_private
from castleguard.errors import OutputError, SnapshotError, UnavailableError, UsageError

FORMAT = 3
_CHECK = b"castleguard"
_SQLITE = b"SQLite format 3\0"  # first bytes of every SQLite file
_PIECES = ("facts", "segment", "letters", "snapshot", "carried")
_FACTS = ("position", "books", "identity", "epochs", "segments", "due", "counts_wiped")
_LATEST = "number, delivered, ended, letters_at, facts, segment, letters"
_LEAST_PROOF = 28  # bytes of a sealed piece: a nonce and a tag
_TABLES = {
    "latest": "CREATE TABLE latest (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER, delivered INTEGER, "
    "ended TEXT, letters_at INTEGER, facts BLOB, segment BLOB, letters BLOB)",
    # A separate table: an update rewrites a whole row, and the snapshot is by far the largest column.
    "state": "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), digest BLOB, snapshot BLOB, carried BLOB)",
    # Always one row. `proof` opens only with the key of the file; `digest` covers all tables.
    "lock": "CREATE TABLE lock (id INTEGER PRIMARY KEY CHECK (id = 1), proof BLOB, digest BLOB)",
}

Ended = Literal["finished", "drained"]
"""End of a job: its source ended, or the job was drained."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One commit. Everything before it is published; nothing after it is."""

    number: int
    """Number of the commit."""
    position: dict[str, Any] | None
    """Position of the source."""
    snapshot: bytes | None
    """The stream; None after its final flush."""
    segment: bytes = b""
    """The rows that this commit publishes, as an Arrow stream; empty if there are none."""
    segments: int = 0
    """Number of segments with rows so far, this commit's included: the number under which it is delivered."""
    due: float | None = None
    """Stream time from which the segment may be delivered; None: at once."""
    letters: bytes = b""
    """The rows that this commit rejects, as lines of JSON."""
    letters_at: int = 0
    """Length of the dead-letter file before them."""
    delivered: bool = False
    """Whether segment and letters have been delivered."""
    ended: Ended | None = None
    books: dict[str, Any] = field(default_factory=dict)
    """Counts of the job, readable without the snapshot."""
    identity: dict[str, Any] = field(default_factory=dict)
    """Input and output of the job: another job must not restore this checkpoint."""
    carried: bytes | None = None
    """After the end of an epoch: row counts per person, for the next epoch."""
    counts_wiped: bool = False
    """Whether `carried` was deleted when the checkpoint lost its key."""
    epochs: dict[str, Any] = field(default_factory=dict)
    """Guarantee and parts of each epoch, in the form of `epochs.Epochs`."""

    def __repr__(self) -> str:
        """Number and state, never the content."""
        return f"Checkpoint(number={self.number}, delivered={self.delivered}, ended={self.ended})"


class _Stored(NamedTuple):
    """The stored columns of the latest commit, except the two largest."""

    latest: tuple[Any, ...]
    state: bytes
    """Digest of snapshot and carried."""


class Store:
    """The checkpoint file of one job, locked while it is open.

    With `read_only` nothing is created, changed or locked, and only `load` may be called. A running job is not
    disturbed, and its checkpoint cannot be read.
    """

    def __init__(self, path: str | Path, *, cipher: Cipher | None = None, read_only: bool = False) -> None:
        self._path = Path(path)
        self._cipher = cipher
        self._read_only = read_only
        self._is_blank = False  # opened read-only, and without a commit in this format
        self._proof: bytes | None = None  # opens only with the key of the file; None if it has none
        self._stored: _Stored | None = None
        self._former: Checkpoint | None = None  # commit of the former format, opened read-only
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
        """The latest commit, or None before the first. Raises SnapshotError if it is damaged."""
        if self._is_blank:
            return self._former
        with self._reading():
            latest = self._database.execute(f"SELECT {_LATEST} FROM latest").fetchall()
            state = self._database.execute("SELECT digest, snapshot, carried FROM state").fetchall()
            kept = self._database.execute("SELECT digest FROM lock").fetchone()[0]
        if not len(latest) == len(state) <= 1:
            raise self._damaged()
        self._stored = _Stored(latest[0], state[0][0]) if latest else None
        if kept != self._digest(self._stored) or (state and state[0][0] != digest_of(state[0][1:])):
            raise self._damaged()
        if not latest:
            return None
        number, delivered, ended, letters_at, *pieces = latest[0]
        facts, segment, letters, snapshot, carried = (
            self._open(piece, name, number) for piece, name in zip((*pieces, *state[0][1:]), _PIECES, strict=True)
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
            carried=carried,
        )

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the latest commit durably. Raises OutputError; the former commit then still stands."""
        with self._transaction():
            self._replace(checkpoint)

    def change_key(self, cipher: Cipher | None) -> None:
        """Change, set or remove the key, in one transaction.

        Only after the final flush, with everything delivered: the file then holds no row. The carried counts are
        encrypted with the new key, or wiped if there is none: tokens of persons that were collected under a key are
        never left readable. Raises UsageError if rows are left.
        """
        latest = self.load()
        if latest is not None and (latest.snapshot is not None or not latest.delivered):
            raise UsageError(f"{self._path} holds rows that are pending or not delivered: drain the job first")
        if latest is not None and cipher is None:
            latest = replace(latest, carried=None, counts_wiped=latest.counts_wiped or latest.carried is not None)
        before = self._cipher, self._proof, self._stored
        try:
            with self._transaction():
                self._cipher = cipher
                self._proof = self._new_proof()
                self._database.execute("UPDATE lock SET proof = ?", (self._proof,))
                if latest is None:
                    self._store_digest(None)
                else:
                    self._replace(latest)
        except BaseException:
            self._cipher, self._proof, self._stored = before
            raise

    def _replace(self, checkpoint: Checkpoint) -> None:
        facts = json.dumps({name: getattr(checkpoint, name) for name in _FACTS}).encode()
        outgoing = (facts, checkpoint.segment, checkpoint.letters)
        *latest, snapshot, carried = (
            self._seal(piece, name, checkpoint.number)
            for name, piece in zip(_PIECES, (*outgoing, checkpoint.snapshot, checkpoint.carried), strict=True)
        )
        plain = (checkpoint.number, int(checkpoint.delivered), checkpoint.ended, checkpoint.letters_at)
        stored = _Stored((*plain, *latest), digest_of((snapshot, carried)))
        self._database.execute("DELETE FROM latest")
        self._database.execute("DELETE FROM state")
        self._database.execute("INSERT INTO latest VALUES (1, ?, ?, ?, ?, ?, ?, ?)", stored.latest)
        self._database.execute("INSERT INTO state VALUES (1, ?, ?, ?)", (stored.state, snapshot, carried))
        self._store_digest(stored)

    def mark_delivered(self, checkpoint: Checkpoint) -> Checkpoint:
        """Wipe the delivered segment and letters of the checkpoint that was last saved or loaded."""
        assert self._stored is not None
        number, _, ended, letters_at, facts, _, _ = self._stored.latest
        assert number == checkpoint.number
        # From memory, which is known to be intact: the file is not read again.
        stored = _Stored((number, 1, ended, letters_at, facts, None, None), self._stored.state)
        with self._transaction():
            self._database.execute("UPDATE latest SET delivered = 1, segment = NULL, letters = NULL")
            self._store_digest(stored)
        return replace(checkpoint, delivered=True, segment=b"", letters=b"")

    def _store_digest(self, stored: "_Stored | None") -> None:
        self._database.execute("UPDATE lock SET digest = ?", (self._digest(stored),))
        self._stored = stored

    def _digest(self, stored: "_Stored | None") -> bytes:
        """Digest over all columns of all tables; before the first commit, over the proof only."""
        rows: tuple[Value, ...] = () if stored is None else (*stored.latest, stored.state)
        key = None if self._cipher is None else self._cipher.digest_key
        return digest_of((FORMAT, self._proof, *rows), key)

    def close(self) -> None:
        """Release the file for other processes. May be called twice."""
        self._database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare_file(self) -> None:
        """Create the file, private to its owner, before SQLite would; the journal inherits its mode. An existing file
        stays unchanged until it is known to be a checkpoint.
        """
        try:
            descriptor = os.open(self._path, os.O_RDONLY) if self._read_only else open_private(self._path)
            try:
                header = os.read(descriptor, len(_SQLITE))
            finally:
                os.close(descriptor)
        except OSError as exc:
            raise OutputError(f"{self._path} cannot be used as a checkpoint: {exc.strerror}") from exc
        if header.strip(b"\0") and header != _SQLITE:  # zeros: a power cut during the first commit
            raise self._damaged()

    def _lock(self) -> None:
        try:
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA secure_delete = ON")
            # Truncated at every commit: a journal that is only marked as done would keep wiped rows.
            self._database.execute("PRAGMA journal_mode = TRUNCATE")
            self._database.execute("PRAGMA synchronous = EXTRA")
            self._database.execute("BEGIN EXCLUSIVE")
            self._database.execute("COMMIT")
        except sqlite3.OperationalError as exc:
            if "locked" in str(exc):
                raise UnavailableError(f"{self._path} is in use by another process: only one may run a job") from exc
            raise OutputError(f"{self._path} cannot be used as a checkpoint: {exc}") from exc
        except (sqlite3.DatabaseError, UnicodeError) as exc:  # the message may quote damaged bytes
            raise self._damaged() from exc

    def _check_format(self) -> None:
        with self._reading():
            found = self._database.execute("PRAGMA user_version").fetchone()[0]
            tables = dict(self._database.execute("SELECT name, sql FROM sqlite_master").fetchall())
        if found == 0 and tables:
            raise SnapshotError(f"{self._path} is the database of another program, or a damaged checkpoint")
        if found == former.FORMAT and tables == former.TABLES:
            self._upgrade()
            return
        if found not in (0, FORMAT):
            raise self._other_format(found)
        self._is_blank = found == 0 and self._read_only
        if self._is_blank:
            return
        if found == 0:
            self._make_private()
            self._create()
            return
        if tables != _TABLES:
            raise self._damaged()
        with self._reading():
            sound = self._database.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
            lock = self._database.execute("SELECT proof FROM lock").fetchall()
        if not sound or len(lock) != 1:
            raise self._damaged()
        self._make_private()
        self._proof = lock[0][0]
        self._check_key()

    def _other_format(self, found: int) -> SnapshotError:
        return SnapshotError(
            f"{self._path} has format {found}, and this version reads {FORMAT}: drain the job with the version "
            f"that wrote it, then run it with this version; if this version wrote it, it is damaged"
        )

    def _upgrade(self) -> None:
        """Convert a checkpoint of the former format, if its job has ended."""
        with self._reading():
            before = former.read_former(self._database)
        if not before.ended:
            raise self._other_format(former.FORMAT)
        self._proof = before.proof
        self._check_key()
        if before.latest is not None:
            number, ended, letters_at, facts = before.latest
            with self._reading():
                known = former.facts_of(self._open(facts, "facts", number))
                # The former format numbers segments by their commits.
                plain = {"number": number, "segments": number, "letters_at": letters_at, "ended": ended}
                self._former = Checkpoint(**known, **plain, snapshot=None, delivered=True)
        if self._read_only:
            self._is_blank = True
            return
        self._make_private()
        with self._transaction():
            for table in former.TABLES:
                self._database.execute(f"DROP TABLE {table}")
            self._create_tables()
            if self._former is not None:
                self._replace(self._former)

    def _make_private(self) -> None:
        if self._read_only:
            return
        try:
            make_private(self._path)
        except OSError as exc:
            raise OutputError(f"{self._path} cannot be used as a checkpoint: {exc.strerror}") from exc

    def _check_key(self) -> None:
        """Check that the file was sealed with this key, under its present name. Raises SnapshotError."""
        with self._reading():
            latest = self._database.execute("SELECT facts, number FROM latest").fetchone()
        if self._proof is None and self._cipher is None:
            return
        if self._proof is None:
            raise SnapshotError(
                f"{self._path} is not encrypted, but a key is given: run `castleguard drain --new-key` with the former "
                f"job file to encrypt it"
            )
        if not isinstance(self._proof, bytes) or len(self._proof) < _LEAST_PROOF:
            raise self._damaged()
        if self._cipher is None:
            raise SnapshotError(f"{self._path} is encrypted: give its key")
        if self._cipher.opens(self._proof, self._path.name):
            return
        if latest is None:
            raise SnapshotError(f"{self._path} cannot be opened: wrong key, renamed file or damaged data")
        facts, number = latest
        if isinstance(facts, bytes) and self._cipher.opens(facts, _label("facts", number)):
            raise SnapshotError(
                f"{self._path} was renamed, and an encrypted checkpoint is bound to its name: rename it back"
            )
        raise SnapshotError(f"{self._path} cannot be opened: wrong key or damaged data")

    def _new_proof(self) -> bytes | None:
        """A sealed constant that opens only with the key; None without a key."""
        return None if self._cipher is None else self._cipher.seal(_CHECK, self._path.name)

    def _create(self) -> None:
        self._proof = self._new_proof()
        with self._transaction():
            self._create_tables()

    def _create_tables(self) -> None:
        for table in _TABLES.values():
            self._database.execute(table)
        self._database.execute("INSERT INTO lock VALUES (1, ?, ?)", (self._proof, self._digest(None)))
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

    def _damaged(self) -> SnapshotError:
        return SnapshotError(
            f"{self._path} is not a checkpoint, or it is damaged: restore the one that belongs to the sink. Without "
            f"it, start a new job: no checkpoint, an empty sink, and a source without the rows that were published"
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Translate errors of SQLite and Python on reading a damaged file."""
        try:
            yield
        except (sqlite3.Error, OverflowError, MemoryError, ValueError, TypeError) as exc:
            if self._read_only and isinstance(exc, sqlite3.OperationalError) and self._is_busy(exc):
                raise self._not_now(exc) from exc
            raise self._damaged() from exc

    def _is_busy(self, exc: sqlite3.OperationalError) -> bool:
        """Whether another process has locked the file, or a crashed one has left a journal."""
        journal = self._path.with_name(self._path.name + "-journal")
        return "locked" in str(exc) or (journal.exists() and journal.stat().st_size > 0)

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
                f"{self._path} cannot be written: the state of the stream exceeds the limit of a checkpoint, about "
                f"1 GB; lower delay or max_wait, so that fewer rows are pending"
            ) from exc
        except (sqlite3.DatabaseError, UnicodeError) as exc:
            raise self._damaged() from exc

    def _not_now(self, exc: sqlite3.OperationalError) -> UnavailableError:
        """The error for a file that cannot be read now."""
        if "locked" in str(exc):
            return UnavailableError(f"{self._path} is in use by another process: the job is running")
        # A journal must be rolled back, which needs write permission.
        return UnavailableError(f"{self._path} was left in the middle of a commit: the next run repairs it")


def _label(name: str, number: int) -> str:
    """Label of a sealed piece: it does not open as another piece, or as that of another commit."""
    return f"{name} of commit {number}"
