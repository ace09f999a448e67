"""Data sets of the papers: files, places and sources.

None of them is part of the package. A file is looked up in the folder that CASTLEGUARD_DATA names, then in `data` in
the user's cache; it may be compressed there, with `.gz` appended to its name. Its SHA-256 is checked before use:
figures of another file cannot be compared with the paper.
"""

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from castleguard.durable import AtomicFile
from castleguard.errors import InputError, OutputError, UnavailableError

TIMEOUT = 60.0  # seconds without an answer
LARGEST = 200_000_000  # bytes; every file is far smaller
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class File:
    """One file of a data set."""

    path: str
    """Path below the data folder, without `.gz` if it is compressed."""
    sha256: str
    """Digest of the decompressed content."""
    url: str = ""
    """Download address of the publisher; empty if the file has none."""


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Files that an experiment reads."""

    name: str
    about: str
    files: tuple[File, ...]
    source: str
    """Where to get it by hand."""
    terms: str
    """Licence or terms of use."""


_AUTHORS = "https://raw.githubusercontent.com/hallnath1/CASTLEGUARD"

ADULT = DataSet(
    name="adult",
    about="Adult, also known as Census Income: 32,561 and 16,281 persons of the census of 1994",
    files=(
        File(
            path="adult/adult.data",
            sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            url="https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.data",
        ),
        File(
            path="adult/adult.test",
            sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            url="https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.test",
        ),
        File(
            path="adult/hierarchies/tds_taxonomytree.json",
            sha256="4e152bcdb3f04b222aab3b43a211f0a148658309ce4af74b75c2d6ee2e392ac8",
            url="https://raw.githubusercontent.com/micophilip/tds-spark/"
            "7a3360843ec8c69ca757b33804857df97ab12add/src/main/resources/taxonomytree.json",
        ),
    ),
    source="the UCI Machine Learning Repository, https://archive.ics.uci.edu/dataset/2/adult; its hierarchies are not "
    "from there but from micophilip/tds-spark on GitHub, src/main/resources/taxonomytree.json",
    terms="CC BY 4.0; the hierarchies: MIT",
)
PIMA = DataSet(
    name="pima",
    about="Pima Indians Diabetes: 768 women, 8 measurements and whether they have diabetes",
    files=(
        File(
            path="pima/diabetes.csv",
            sha256="cdd2015894cca7aa03448381cd9eec2232b8f4a45eb2102cfc53a4c606a0c3aa",
            url=f"{_AUTHORS}/d4c8850480a3a92fdf40da775a187ddae200c775/diabetes.csv",
        ),
    ),
    source="the repository of CASTLEGUARD's authors, https://github.com/hallnath1/CASTLEGUARD, diabetes.csv",
    terms="MIT or Apache-2.0, as the repository; the data come from the NIDDK by way of UCI",
)
TAXI = DataSet(
    name="taxi",
    about="Yellow taxi rides in New York: the 1,000 of CASTLEGUARD's authors, and 10,000 of January 2019",
    files=(
        File(
            path="nyc_taxi/castleguard_example_1000.csv",
            sha256="000558d15709cf53eb96acd0495537fc936bc4e288eba54ff772393807cb1f41",
            url=f"{_AUTHORS}/6c0dcfbe76275e4fccd1ab315df02449772e2bc7/example.csv",
        ),
        File(
            path="nyc_taxi/yellow_tripdata_sample_2019-01.csv",
            sha256="929e7de21f3ace69719f43473187b3b106e8759606821e5a87ef25e530e1e94f",
            url="https://raw.githubusercontent.com/great-expectations/great_expectations/"
            "3dbf9f8bf7fc6b4e848c054f9333cfdfa3f8f2e1/tests/test_sets/taxi_yellow_tripdata_samples/"
            "yellow_tripdata_sample_2019-01.csv",
        ),
    ),
    source="the repository of CASTLEGUARD's authors, https://github.com/hallnath1/CASTLEGUARD, example.csv; the sample "
    "of January 2019 is in great-expectations/great_expectations on GitHub. All rides are published by the Taxi and "
    "Limousine Commission, https://www.nyc.gov/site/tlc/about/tlc-trip-record-data.page",
    terms="NYC Open Data terms of use",
)
BACKBLAZE = DataSet(
    name="backblaze",
    about="Power-on hours of hard drives: 868,524 records of 40 days in April and May 2013",
    files=(
        File(
            path="backblaze/drive_stats_2013-04-10_to_2013-05-19_smart9.csv",
            sha256="2e36d2258635968b3e7f29e5553263b415705a73a9ed2887212511cf76b9ea17",
        ),
    ),
    source="Backblaze, https://www.backblaze.com/cloud-storage/resources/hard-drive-test-data, as the columns date, "
    "serial_number, model and smart_9_raw of the daily files of 2013-04-10 to 2013-05-19, one after the other",
    terms="free to use; Backblaze is to be named as the source, and the data are not to be sold",
)
DATA_SETS = {data_set.name: data_set for data_set in (ADULT, PIMA, TAXI, BACKBLAZE)}


def cache() -> Path:
    """Folder for downloads: beside the compiled kernels, private to this user."""
    chosen = os.environ.get("CASTLEGUARD_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "castleguard"
    return base / "data"


def folders() -> list[Path]:
    """Folders to search, in this order."""
    named = os.environ.get("CASTLEGUARD_DATA")
    return [*([Path(named)] if named else []), cache()]


def find(file: File) -> Path | None:
    """The file, compressed or not; None if it is missing."""
    places = [folder / f"{file.path}{ending}" for folder in folders() for ending in ("", ".gz")]
    return next((place for place in places if place.is_file()), None)


def missing(names: Sequence[str]) -> list[File]:
    """Missing files of these data sets."""
    return [file for name in names for file in DATA_SETS[name].files if find(file) is None]


def require(names: Sequence[str]) -> None:
    """Raise InputError, with the source, if a file of these data sets is missing."""
    for file in missing(names):
        raise InputError(_absent(file))


def read(file: File) -> bytes:
    """The decompressed content of the file, checked against its digest.

    Raises InputError if the file is missing, unreadable or another one.
    """
    path = find(file)
    if path is None:
        raise InputError(_absent(file))
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as exc:
        why = getattr(exc, "strerror", None) or "it is damaged"
        raise InputError(f"{path} cannot be read: {why}") from exc
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise InputError(
            f"{path} is not the file that the papers' figures are compared with: its SHA-256 is {found[:12]}..., and "
            f"must be {file.sha256[:12]}...; get it again from {_owner(file).source}"
        )
    return content


def download(names: Sequence[str], *, say: Callable[[str], None] = lambda words: None) -> list[Path]:
    """Download missing files of these data sets from their publishers; return their paths.

    A file is checked before it gets its name. Raises UnavailableError if a publisher cannot be reached, InputError if
    the file is another one or has no download address.
    """
    made = []
    for file in missing(names):
        if not file.url:
            raise InputError(_absent(file))
        say(f"fetching {file.url}")
        made.append(_fetch(file, cache() / file.path))
    return made


def _fetch(file: File, target: Path) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise OutputError(f"{target.parent} cannot be written: {exc.strerror}") from exc
    part = AtomicFile(target)
    try:
        found = _copy(file, part)
        if found != file.sha256:
            raise InputError(
                f"{file.url} has another file than it should: its SHA-256 is {found[:12]}..., and must be "
                f"{file.sha256[:12]}...; nothing of it was kept"
            )
        part.commit()
    finally:
        part.discard()
    return target


def _copy(file: File, part: AtomicFile) -> str:
    """Write everything the publisher sends, and return its SHA-256."""
    digest, size = hashlib.sha256(), 0
    try:
        with urlopen(file.url, timeout=TIMEOUT) as answer:
            while block := answer.read(_BLOCK):
                size += len(block)
                if size > LARGEST:
                    raise InputError(f"{file.url} has more than {LARGEST:,} bytes, which is not the file it should be")
                digest.update(block)
                part.write(block)
    except (URLError, OSError) as exc:
        raise UnavailableError(f"{file.url} cannot be fetched now: {getattr(exc, 'reason', None) or exc}") from exc
    return digest.hexdigest()


def _owner(file: File) -> DataSet:
    return next(data_set for data_set in DATA_SETS.values() if file in data_set.files)


def _absent(file: File) -> str:
    data_set = _owner(file)
    fetch = ", or let --download fetch it" if all(each.url for each in data_set.files) else ""
    return (
        f"the data set {data_set.name} is not here: get it from {data_set.source}; put it as {file.path} into the "
        f"folder that CASTLEGUARD_DATA names or into {cache()}{fetch}"
    )
