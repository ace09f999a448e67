"""The two files to read first stay short and do not depend on sites."""

import re
from pathlib import Path

import pytest

import castleguard

FOLDER = Path(castleguard.__file__).parent


@pytest.mark.parametrize(("name", "most"), [("stream.py", 300), ("job.py", 250)])
def test_file_is_short(name: str, most: int) -> None:
    assert len((FOLDER / name).read_text(encoding="utf-8").splitlines()) <= most


@pytest.mark.parametrize("name", ["stream.py", "job.py"])
def test_file_does_not_mention_sites(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert not re.findall(r"\b(?:sites?|relays?|offers?)\b", text, re.IGNORECASE)
