"""Data sets: lookup, refused files, and downloads from a server in this process."""

import gzip
import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from castleguard.errors import InputError, OutputError, UnavailableError
from castleguard.lab import datasets
from castleguard.lab.datasets import DATA_SETS, DataSet, File, download, find, missing, read, require
from tests.patience import WHOLE_RUN

CONTENT = b"a,b\n1,2\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Publisher(BaseHTTPRequestHandler):
    """A server with one right file and one wrong file."""

    def do_GET(self) -> None:
        """Answer."""
        found = {"/right.csv": CONTENT, "/wrong.csv": b"something else", "/long.csv": b"x" * 5000}.get(self.path)
        self.send_response(404 if found is None else 200)
        self.end_headers()
        self.wfile.write(found or b"")

    def log_message(self, *words: object) -> None:
        """Log nothing."""


@pytest.fixture
def publisher() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Publisher)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(timeout=WHOLE_RUN)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """An empty folder of data, and an empty cache."""
    named, cache = tmp_path / "named", tmp_path / "cache"
    named.mkdir()
    monkeypatch.setenv("CASTLEGUARD_DATA", str(named))
    monkeypatch.setenv("CASTLEGUARD_CACHE", str(cache))
    monkeypatch.setattr(datasets, "TIMEOUT", 5.0)
    return named, cache / "data"


def declare(monkeypatch: pytest.MonkeyPatch, url: str = "", *, sha256: str = SHA256) -> File:
    """A data set `made` of one file."""
    file = File(path="made/rows.csv", sha256=sha256, url=url)
    made = DataSet(name="made", about="made up", files=(file,), source="nowhere in particular", terms="none")
    monkeypatch.setitem(DATA_SETS, "made", made)
    return file


def put(folder: Path, content: bytes, name: str = "rows.csv") -> Path:
    path = folder / "made" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


Places = tuple[Path, Path]


# Lookup


def test_the_named_folder_comes_before_the_cache(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    file = declare(monkeypatch)
    assert find(file) is None
    cached = put(places[1], CONTENT)
    assert find(file) == cached
    named = put(places[0], CONTENT)
    assert find(file) == named
    assert missing(["made"]) == []


def test_without_a_named_folder_the_cache_is_searched(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    file = declare(monkeypatch)
    cached = put(places[1], CONTENT)
    monkeypatch.delenv("CASTLEGUARD_DATA")
    assert read(file) == CONTENT
    monkeypatch.delenv("CASTLEGUARD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(places[1].parent.parent / "xdg"))
    assert find(file) is None
    assert datasets.cache() == places[1].parent.parent / "xdg" / "castleguard" / "data"
    assert cached.exists()


def test_compressed_file_is_decompressed(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    file = declare(monkeypatch)
    put(places[0], gzip.compress(CONTENT), "rows.csv.gz")
    assert read(file) == CONTENT


def test_a_missing_file_is_one_sentence_with_source_and_place(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    file = declare(monkeypatch)
    with pytest.raises(
        InputError, match=r"made is not here: get it from nowhere in particular; put it as made/rows\.csv"
    ):
        require(["made"])
    with pytest.raises(InputError) as caught:
        read(file)
    assert str(places[1]) in str(caught.value)
    assert "--download" not in str(caught.value)  # it has no address
    declare(monkeypatch, "http://127.0.0.1:1/")
    with pytest.raises(InputError, match="or let --download fetch it"):
        require(["made"])


# Refused files


def test_another_file_is_refused(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    file = declare(monkeypatch)
    put(places[0], CONTENT + b"3,4\n")
    with pytest.raises(InputError, match=rf"its SHA-256 is [0-9a-f]{{12}}\.\.\., and must be {SHA256[:12]}"):
        read(file)


def test_damaged_archive_is_refused_with_a_message(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    file = declare(monkeypatch)
    path = put(places[0], gzip.compress(CONTENT)[:-9], "rows.csv.gz")
    with pytest.raises(InputError, match=r"rows\.csv\.gz cannot be read: it is damaged"):
        read(file)
    path.write_bytes(b"no archive at all")
    with pytest.raises(InputError, match="cannot be read"):
        read(file)


# Downloads


def test_a_download_lands_in_the_cache_and_can_be_read(
    places: Places, publisher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = declare(monkeypatch, f"{publisher}/right.csv")
    messages: list[str] = []
    assert download(["made"], say=messages.append) == [places[1] / "made" / "rows.csv"]
    assert messages == [f"fetching {publisher}/right.csv"]
    assert read(file) == CONTENT
    assert os.listdir(places[1] / "made") == ["rows.csv"]
    assert download(["made"]) == []  # it is here


def test_a_download_with_another_checksum_is_refused_and_removed(
    places: Places, publisher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, f"{publisher}/wrong.csv")
    with pytest.raises(InputError, match=r"another file than it should.*nothing of it was kept"):
        download(["made"])
    assert os.listdir(places[1] / "made") == []


def test_a_download_that_does_not_end_is_cut_off(
    places: Places, publisher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "LARGEST", 4000)
    declare(monkeypatch, f"{publisher}/long.csv")
    with pytest.raises(InputError, match="more than 4,000 bytes"):
        download(["made"])
    assert os.listdir(places[1] / "made") == []


def test_unreachable_publisher_raises_unavailable_error(
    places: Places, publisher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, f"{publisher}/nothing.csv")
    with pytest.raises(UnavailableError, match="cannot be fetched now: Not Found"):
        download(["made"])
    declare(monkeypatch, "http://127.0.0.1:1/refused.csv")
    with pytest.raises(UnavailableError, match="cannot be fetched now"):
        download(["made"])
    assert os.listdir(places[1] / "made") == []


def test_file_without_an_address_cannot_be_downloaded(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch)
    with pytest.raises(InputError, match="made is not here"):
        download(["made"])


def test_a_cache_that_cannot_be_written_is_named(
    places: Places, publisher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, f"{publisher}/right.csv")
    places[1].parent.write_text("a file where the folder should be")
    with pytest.raises(OutputError, match="cannot be written"):
        download(["made"])


# The real ones


@pytest.mark.parametrize("name", sorted(DATA_SETS))
def test_every_file_of_the_papers_has_a_checksum_and_a_source(name: str) -> None:
    data_set = DATA_SETS[name]
    assert data_set.name == name
    assert data_set.source
    assert data_set.terms
    assert data_set.about
    for file in data_set.files:
        assert len(file.sha256) == 64
        assert not file.path.endswith(".gz")
        assert file.url == "" or file.url.startswith("https://")


@pytest.mark.parametrize("name", sorted(DATA_SETS))
def test_the_real_files_have_their_checksums(data_folder: Path, name: str) -> None:
    for file in DATA_SETS[name].files:
        assert read(file)


def test_the_page_about_data_names_every_file_with_its_checksum() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "data.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("|")]
    for data_set in DATA_SETS.values():
        assert f"## {data_set.name}" in page
        for file in data_set.files:
            assert any(f"`{file.path}`" in line and f"`{file.sha256}`" in line for line in lines)
