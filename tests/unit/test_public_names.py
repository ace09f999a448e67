"""The public names, pinned: a change must also be made here and in CHANGELOG.md."""

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
    "Citadel",
    "Closeness",
    "Doca",
    "Guarantee",
    "Hierarchy",
    "Job",
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
    "audit",
    "check",
    "explain",
    "load_job",
    "load_schema",
    "measure",
    "propose",
    "sweep",
]


def test_public_names_are_exactly_these() -> None:
    assert sorted(castleguard.__all__) == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_public_name_exists_and_is_documented(name: str) -> None:
    assert getattr(castleguard, name).__doc__


def test_version_is_the_packaged_one() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert castleguard.__version__ == project["version"]


@pytest.mark.parametrize("name", [name for name in PUBLIC_NAMES if name != "__version__"])
def test_public_name_has_no_module_of_its_own_name(name: str) -> None:
    """Importing `castleguard.audit` as a module would replace the function of that name."""
    package = Path(castleguard.__file__).parent
    assert not (package / f"{name}.py").exists()
    assert not (package / name).is_dir()
