"""Dead letters: appended once, even if a commit is repeated."""

import stat
from pathlib import Path

import pytest

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.dead_letters import DeadLetters, read_letters
from castleguard.errors import InputError, OutputError, SnapshotError


@pytest.mark.parametrize("cipher", [None, Cipher(bytes(32))], ids=["plain", "encrypted"])
def test_letters_are_read_in_order(tmp_path: Path, cipher: Cipher | None) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl", cipher=cipher)
    for lines in ([b'{"row": 1}'], [], [b'{"row": 2}', b'{"row": 3}']):
        letters.append(letters.sealed(lines), letters.length())
    assert letters.read() == [b'{"row": 1}', b'{"row": 2}', b'{"row": 3}']
    assert (b"row" in (tmp_path / "letters.jsonl").read_bytes()) == (cipher is None)


@pytest.mark.parametrize("written", [0, 4, 9])
def test_leftover_of_a_crashed_commit_is_overwritten(tmp_path: Path, written: int) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl")
    letters.append(b"first\n", 0)
    at = letters.length()
    with (tmp_path / "letters.jsonl").open("ab") as half:
        half.write(b"second\nthird\n"[:written])
    letters.append(b"second\nthird\n", at)
    assert letters.read() == [b"first", b"second", b"third"]


def test_moved_file_is_created_again(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl")
    letters.append(b"first\n", 0)
    at = letters.length()
    (tmp_path / "letters.jsonl").rename(tmp_path / "old.jsonl")
    assert letters.length() == 0
    letters.append(b"second\n", at)
    assert letters.read() == [b"second"]
    assert stat.S_IMODE((tmp_path / "letters.jsonl").stat().st_mode) == 0o600


def test_unwritable_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be used for dead letters"):
        DeadLetters(tmp_path / "file" / "letters.jsonl")


def test_missing_folders_are_created_private(tmp_path: Path) -> None:
    DeadLetters(tmp_path / "one" / "two" / "letters.jsonl")
    for folder in (tmp_path / "one", tmp_path / "one" / "two"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


LETTER = b'{"place": "in.csv, line 3", "reason": "age: invalid", "row": {}}'
CIPHERS = {"none": None, "one": Cipher(bytes(32)), "other": Cipher(bytes(range(32)))}


@pytest.mark.parametrize("then", CIPHERS)
@pytest.mark.parametrize("first", CIPHERS)
def test_file_holds_letters_of_one_key_only(tmp_path: Path, first: str, then: str) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl", cipher=CIPHERS[first])
    letters.append(letters.sealed([LETTER]), 0)
    if first == then:
        assert DeadLetters(tmp_path / "letters.jsonl", cipher=CIPHERS[then]).read() == [LETTER]
    else:
        with pytest.raises(OutputError, match=r"were not written with this key.*move it away"):
            DeadLetters(tmp_path / "letters.jsonl", cipher=CIPHERS[then])


@pytest.mark.parametrize("cipher", [None, Cipher(bytes(32))], ids=["plain", "encrypted"])
@pytest.mark.parametrize("kept", [0, 4, 30])
def test_unfinished_first_letter_of_a_crashed_commit_is_accepted(
    tmp_path: Path, cipher: Cipher | None, kept: int
) -> None:
    path = tmp_path / "letters.jsonl"
    letters = DeadLetters(path, cipher=cipher)
    path.write_bytes(letters.sealed([LETTER])[:kept] + bytes(7))
    DeadLetters(path, cipher=cipher).append(b"x\n", 0)


@pytest.mark.parametrize("cipher", [None, Cipher(bytes(32))], ids=["plain", "encrypted"])
@pytest.mark.parametrize(
    "content",
    [
        b"name,age\nZoe,7\n",
        b"name: job\n",
        b"# one line without an end",
        b'{"age": 7}\n',
        b'["place", "reason"]\n',
        b"\n",
    ],
)
def test_file_without_letters_is_refused_and_unchanged(tmp_path: Path, cipher: Cipher | None, content: bytes) -> None:
    path = tmp_path / "tickets.csv"
    path.write_bytes(content)
    path.chmod(0o644)
    with pytest.raises(OutputError, match=r"tickets\.csv does not hold dead letters: choose another file"):
        DeadLetters(path, cipher=cipher)
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_unfinished_letter_is_left_out(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl", cipher=Cipher(bytes(32)))
    sealed = letters.sealed([b'{"row": 1}', b'{"row": 2}'])
    letters.append(sealed[:-5], 0)
    assert letters.read() == [b'{"row": 1}']


@pytest.mark.parametrize(
    ("cipher", "message"),
    [(None, r"line 1 of .* is encrypted: give its key"), (Cipher(bytes(range(32))), r"line 1 of .*: wrong key or")],
    ids=["no key", "another key"],
)
def test_letter_that_does_not_open_is_reported_by_line(tmp_path: Path, cipher: Cipher | None, message: str) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl", cipher=Cipher(bytes(32)))
    letters.append(letters.sealed([b'{"row": 1}']), 0)
    with pytest.raises(SnapshotError, match=message):
        list(read_letters(tmp_path / "letters.jsonl", cipher=cipher))


def test_unreadable_letters_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        list(read_letters(tmp_path / "missing.jsonl"))
