"""The public surface, pinned: a name is added or removed on purpose, here and in CHANGELOG.md, or not at all."""

import tomllib
from pathlib import Path

import pytest

import castleguard

PUBLIC_NAMES = [
    "Anonymiser",
    "Castle",
    "Castleguard",
    "CastleguardError",
    "Categorical",
    "Closeness",
    "Doca",
    "Guarantee",
    "Hierarchy",
    "Numeric",
    "Person",
    "Public",
    "Randomiser",
    "Report",
    "Schema",
    "Sdgs",
    "Sensitive",
    "__version__",
    "anonymise",
]


def test_public_names_are_exactly_these() -> None:
    assert sorted(castleguard.__all__) == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_public_name_exists_and_is_documented(name: str) -> None:
    assert getattr(castleguard, name).__doc__


def test_version_is_the_packaged_one() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert castleguard.__version__ == project["version"]
