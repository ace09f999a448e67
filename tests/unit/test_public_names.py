"""The public names, pinned: a change must also be made here and in CHANGELOG.md."""

import tomllib
from pathlib import Path

import pytest

import castleguard

ALGORITHMS = ["Castle", "Castleguard", "Citadel", "Doca", "Sdgs"]
SCHEMAS = ["Categorical", "Hierarchy", "Numeric", "Person", "Public", "Schema", "Sensitive", "load_schema", "propose"]
STREAMS = ["Anonymiser", "Closeness", "Guarantee", "Randomiser", "Report", "anonymise"]
JOBS = ["Job", "check", "explain", "load_job"]
JUDGEMENTS = ["audit", "measure", "sweep"]
PUBLIC_NAMES = sorted([*ALGORITHMS, *SCHEMAS, *STREAMS, *JOBS, *JUDGEMENTS, "CastleguardError", "__version__"])


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
