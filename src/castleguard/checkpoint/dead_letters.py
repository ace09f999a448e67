"""Dead letters: rejected rows, one line of JSON each, with the reason and their place in the input.

They hold raw values: the file is private to its owner (0600), and with a key every line is encrypted. Lines are
appended after the job's commit: after a crash the same lines are written again, replacing only a partial copy of
themselves.
"""

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path

from castleguard.checkpoint.cipher import Cipher
from castleguard.durable import make_private, open_private
from castleguard.errors import InputError, OutputError, SnapshotError

_LABEL = "dead letter"
_LEAST_SEALED = 28  # bytes of a sealed letter: a nonce and a tag
_BEGINNING = b'{"place": '  # start of a letter that is not sealed
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_LONGEST = 1 << 26  # maximum number of bytes of the first line that are read for the check


class DeadLetters:
    """The dead-letter file of one job."""

    def __init__(self, path: str | Path, *, cipher: Cipher | None = None) -> None:
        self._path = Path(path)
        self._cipher = cipher
        check_letters(self._path, cipher=cipher)
        try:
            os.close(self._open())
        except OSError as exc:
            raise OutputError(f"{self._path} cannot be used for dead letters: {exc.strerror}") from exc

    def length(self) -> int:
        """Size of the file in bytes: the offset of the next letters."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0  # moved away by the operator

    def sealed(self, lines: list[bytes]) -> bytes:
        """Lines in their stored form: unchanged, or each encrypted, in base64."""
        if self._cipher is not None:
            lines = [base64.b64encode(self._cipher.seal(line, _LABEL)) for line in lines]
        return b"".join(line + b"\n" for line in lines)

    def append(self, letters: bytes, at: int) -> None:
        """Append letters durably. Bytes from `at` on are overwritten if a crashed commit left them, that is, if they
        are a prefix of these letters. Any other bytes stay.
        """
        try:
            descriptor = self._open()
            try:
                if _is_beginning(descriptor, at, letters):
                    os.ftruncate(descriptor, at)
                os.lseek(descriptor, 0, os.SEEK_END)
                view = memoryview(letters)
                while view:
                    view = view[os.write(descriptor, view) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as exc:
            raise OutputError(f"{self._path} cannot be written: {exc.strerror}") from exc

    def read(self) -> list[bytes]:
        """All letters, decrypted."""
        return list(read_letters(self._path, cipher=self._cipher))

    def _open(self) -> int:
        """Open or create the file, and make it private to its owner."""
        descriptor = open_private(self._path)
        try:
            make_private(self._path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def check_letters(path: Path, *, cipher: Cipher | None = None) -> None:
    """Refuse a file that holds anything but dead letters of this key: it was named by mistake and stays unchanged."""
    try:
        if not path.exists():
            return
        with path.open("rb") as file:
            first = file.readline(_LONGEST)
    except OSError as exc:
        raise OutputError(f"{path} cannot be used for dead letters: {exc.strerror}") from exc
    if not first.endswith(b"\n"):
        fits = _may_become_letter(first, cipher)
    else:
        fits = _is_letter_of(first[:-1], cipher)
        if not fits and (_sealed_part(first[:-1]) is not None or _is_plain_letter(first[:-1])):
            raise OutputError(
                f"{path} holds dead letters that were not written with this key, or it is damaged: move it away, and "
                f"the job creates a new one"
            )
    if not fits:
        raise OutputError(f"{path} does not hold dead letters: choose another file")


def read_letters(path: Path, *, cipher: Cipher | None = None) -> Iterator[bytes]:
    """The letters in a file, decrypted, one by one.

    An incomplete last line is still being written and is skipped. Raises InputError, or SnapshotError with the number
    of a line that cannot be decrypted.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield _opened(line[:-1], f"line {number} of {path}", cipher)
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}") from exc


def _opened(line: bytes, where: str, cipher: Cipher | None) -> bytes:
    """The decrypted letter."""
    sealed = _sealed_part(line)
    if sealed is None:
        return line
    if cipher is None:
        raise SnapshotError(f"{where} is encrypted: give its key")
    try:
        return cipher.open(sealed, _LABEL)
    except SnapshotError as exc:
        raise SnapshotError(f"{where} cannot be opened: wrong key or damaged data") from exc


def _sealed_part(line: bytes) -> bytes | None:
    """The sealed bytes; None for a plain line: JSON begins with a character that base64 does not have."""
    try:
        found = base64.b64decode(line, validate=True)
    except ValueError:
        return None
    return found if len(found) >= _LEAST_SEALED else None


def _is_letter_of(line: bytes, cipher: Cipher | None) -> bool:
    """Whether a line was written with this key, or unencrypted without a key."""
    sealed = _sealed_part(line)
    if sealed is None or cipher is None:
        return sealed is None and cipher is None and _is_plain_letter(line)
    return cipher.opens(sealed, _LABEL)


def _is_plain_letter(line: bytes) -> bool:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"place", "reason"} <= found.keys()


def _may_become_letter(start: bytes, cipher: Cipher | None) -> bool:
    """Whether a crashed commit may have left this start of a first letter, with zeros in place of lost bytes."""
    start = start.rstrip(b"\0")
    if cipher is not None:
        return not start.strip(_BASE64)
    return start[: len(_BEGINNING)] == _BEGINNING[: len(start)]


def _is_beginning(descriptor: int, at: int, letters: bytes) -> bool:
    """Whether the bytes from `at` on are a prefix of `letters`; a power cut leaves zeros in place of lost bytes."""
    there = os.fstat(descriptor).st_size - at
    if not 0 < there <= len(letters):
        return False
    os.lseek(descriptor, at, os.SEEK_SET)
    found = b""
    while len(found) < there and (more := os.read(descriptor, there - len(found))):
        found += more
    return letters.startswith(found.rstrip(b"\0"))
