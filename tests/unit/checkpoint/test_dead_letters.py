"""Dead letters: appended once, however often a commit is repeated."""

import stat
from pathlib import Path

import pytest

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.dead_letters import DeadLetters, read_letters
from castleguard.errors import InputError, OutputError, SnapshotError


@pytest.mark.parametrize("cipher", [None, Cipher(bytes(32))], ids=["plain", "encrypted"])
def test_letters_come_back_in_order(tmp_path: Path, cipher: Cipher | None) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl", cipher=cipher)
    for lines in ([b'{"row": 1}'], [], [b'{"row": 2}', b'{"row": 3}']):
        letters.append(letters.sealed(lines), letters.length())
    assert letters.read() == [b'{"row": 1}', b'{"row": 2}', b'{"row": 3}']
    assert (b"row" in (tmp_path / "letters.jsonl").read_bytes()) == (cipher is None)


@pytest.mark.parametrize("written", [0, 4, 9])
def test_what_a_dead_commit_left_behind_is_written_over(tmp_path: Path, written: int) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl")
    letters.append(b"first\n", 0)
    at = letters.length()
    with (tmp_path / "letters.jsonl").open("ab") as half:
        half.write(b"second\nthird\n"[:written])
    letters.append(b"second\nthird\n", at)
    assert letters.read() == [b"first", b"second", b"third"]


def test_a_file_that_was_moved_away_begins_anew(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl")
    letters.append(b"first\n", 0)
    at = letters.length()
    (tmp_path / "letters.jsonl").rename(tmp_path / "old.jsonl")
    assert letters.length() == 0
    letters.append(b"second\n", at)
    assert letters.read() == [b"second"]
    assert stat.S_IMODE((tmp_path / "letters.jsonl").stat().st_mode) == 0o600


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be used for dead letters"):
        DeadLetters(tmp_path / "file" / "letters.jsonl")


def test_missing_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    DeadLetters(tmp_path / "one" / "two" / "letters.jsonl")
    for folder in (tmp_path / "one", tmp_path / "one" / "two"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


LETTER = b'{"place": "in.csv, line 3", "reason": "age: invalid", "row": {}}'
CIPHERS = {"none": None, "one": Cipher(bytes(32)), "other": Cipher(bytes(range(32)))}


@pytest.mark.parametrize("then", CIPHERS)
@pytest.mark.parametrize("first", CIPHERS)
def test_a_file_has_letters_of_one_key_alone(tmp_path: Path, first: str, then: str) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl", cipher=CIPHERS[first])
    letters.append(letters.sealed([LETTER]), 0)
    if first == then:
        assert DeadLetters(tmp_path / "letters.jsonl", cipher=CIPHERS[then]).read() == [LETTER]
    else:
        with pytest.raises(OutputError, match=r"were not written with this key.*move it away"):
            DeadLetters(tmp_path / "letters.jsonl", cipher=CIPHERS[then])


@pytest.mark.parametrize("cipher", [None, Cipher(bytes(32))], ids=["plain", "encrypted"])
@pytest.mark.parametrize("kept", [0, 4, 30])
def test_a_first_letter_that_a_dead_commit_left_unfinished_is_ours(
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
def test_a_file_that_holds_no_letters_is_refused_and_left_as_it_is(
    tmp_path: Path, cipher: Cipher | None, content: bytes
) -> None:
    path = tmp_path / "tickets.csv"
    path.write_bytes(content)
    path.chmod(0o644)
    with pytest.raises(OutputError, match=r"tickets\.csv does not hold dead letters: name another file"):
        DeadLetters(path, cipher=cipher)
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_letter_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl", cipher=Cipher(bytes(32)))
    sealed = letters.sealed([b'{"row": 1}', b'{"row": 2}'])
    letters.append(sealed[:-5], 0)
    assert letters.read() == [b'{"row": 1}']


@pytest.mark.parametrize(
    ("cipher", "said"),
    [(None, r"line 1 of .* is encrypted: give its key"), (Cipher(bytes(range(32))), r"line 1 of .*: another key, or")],
    ids=["no key", "another key"],
)
def test_a_letter_that_does_not_open_is_told_by_its_line(tmp_path: Path, cipher: Cipher | None, said: str) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl", cipher=Cipher(bytes(32)))
    letters.append(letters.sealed([b'{"row": 1}']), 0)
    with pytest.raises(SnapshotError, match=said):
        list(read_letters(tmp_path / "letters.jsonl", cipher=cipher))


def test_letters_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        list(read_letters(tmp_path / "missing.jsonl"))
