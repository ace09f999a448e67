"""What every test shares: how hard Hypothesis tries, and where the real data sets are.

The environment variable HYPOTHESIS_PROFILE chooses the profile:

    default    a moderate number of examples, for the work at hand
    ci         about half of that, and the same ones in every run: a change is not blamed for an old bug
    nojit      few, because the kernels run as plain Python
    thorough   many, for a night or for a change to a guarantee

No profile has a deadline: the first example of a process may compile a kernel.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import scheduling

settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile(
    "ci",
    max_examples=25,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("nojit", max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "default")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> scheduling.Scheduling:
    """How tests are given out to workers."""
    return scheduling.Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests for workers: the long ones first."""
    scheduling.check_groups(items)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: scheduling.rank(scheduling.group_of(item.nodeid)))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of the real data sets, named by CASTLEGUARD_DATA; a test that needs it is skipped without it."""
    named = os.environ.get("CASTLEGUARD_DATA")
    if not named:
        pytest.skip("needs the real data sets: set CASTLEGUARD_DATA to their folder")
    folder = Path(named)
    if not folder.is_dir():
        pytest.skip("needs the real data sets: CASTLEGUARD_DATA does not name a folder")
    return folder
