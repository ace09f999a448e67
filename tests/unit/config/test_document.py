"""YAML with line numbers, and what is refused before any meaning is looked at."""

import datetime as dt
from pathlib import Path

import pytest

from castleguard.config.document import read_document
from castleguard.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_part_knows_its_line(tmp_path: Path) -> None:
    document = read_document(write(tmp_path, "# comment\na: 1\nb:\n  - x\n  - {c: 2,\n     d: 3}\n"))
    assert document.data == {"a": 1, "b": ["x", {"c": 2, "d": 3}]}
    assert document.lines == {
        (): 2, ("a",): 2, ("b",): 3, ("b", 0): 4, ("b", 1): 5, ("b", 1, "c"): 5, ("b", 1, "d"): 6,
    }  # fmt: skip
    assert document.where(("b", 1, "d")).endswith("job.yaml:6")


def test_a_place_that_is_not_there_has_the_line_around_it(tmp_path: Path) -> None:
    document = read_document(write(tmp_path, "a: 1\nb:\n  c: 2\n"))
    assert document.line(("b", "missing", 0)) == 2
    assert document.line(("missing",)) == 1


def test_values_have_yaml_types_but_keys_are_text(tmp_path: Path) -> None:
    text = "null: 1\nno: true\n5: ~\nday: 2020-01-02\ntime: 2020-01-02T03:04:05Z\nname: '5'\n"
    assert read_document(write(tmp_path, text)).data == {
        "null": 1,
        "no": True,
        "5": None,
        "day": dt.date(2020, 1, 2),
        "time": dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        "name": "5",
    }


def test_aliases_are_followed(tmp_path: Path) -> None:
    assert read_document(write(tmp_path, "a: &x [1]\nb: *x\n")).data == {"a": [1], "b": [1]}


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    assert read_document(write(tmp_path, "\ufeffa: 1\n")).data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "job.yaml is empty"),
        ("# nothing\n", "job.yaml is empty"),
        ("a: 1\nb: [\n", "job.yaml:3  invalid YAML:"),
        ("a: 1\n\tb: 2\n", "job.yaml:2  invalid YAML:"),
        ("a: 1\n---\nb: 2\n", "job.yaml:2  invalid YAML:"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "job.yaml:4  b.c is a duplicate key, first used in line 3"),
        ("a: 1\n'a': 2\n", "job.yaml:2  a is a duplicate key, first used in line 1"),
        ("a: !!python/object:os.system x\n", "job.yaml:1  invalid YAML: could not determine a constructor"),
        ("x: 1\na: 2020-13-45\n", "job.yaml:2  invalid value: month must be"),
        ("a: 1\n? [x]\n: 2\n", "job.yaml:2  keys must be plain text"),
        ("a: &x\n  b: *x\n", "job.yaml:2  a.b contains itself"),
        ("a: \x07\n", "job.yaml is not valid YAML: unacceptable character"),
    ],
)
def test_an_unreadable_file_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_document(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_a_folder_and_bytes_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml cannot be read: No such file or directory$"):
        read_document(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory$"):
        read_document(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"a: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml cannot be read: it is not UTF-8 text$"):
        read_document(tmp_path / "latin.yaml")
