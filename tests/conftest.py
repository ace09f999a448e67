"""What every test shares: how hard Hypothesis tries, and where the real data sets are.

The environment variable HYPOTHESIS_PROFILE chooses the profile:

    default    a moderate number of examples, for the work at hand
    ci         about half of that, and the same ones in every run: a change is not blamed for an old bug
    nojit      few, because the kernels run as plain Python
    quick      as few, for `make quick`
    thorough   many, for a night or for a change to a guarantee

No profile has a deadline or a limit for making an example: both would judge the machine.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import scheduling, warming

COMPILING = pytest.StashKey[Popen[bytes] | None]()

SLOW = [HealthCheck.too_slow]
settings.register_profile("default", max_examples=50, deadline=None, suppress_health_check=SLOW)
settings.register_profile(
    "ci", max_examples=25, deadline=None, derandomize=True, print_blob=True, suppress_health_check=SLOW
)
settings.register_profile("nojit", max_examples=10, deadline=None, suppress_health_check=SLOW)
settings.register_profile("quick", max_examples=10, deadline=None, suppress_health_check=SLOW)
settings.register_profile("thorough", max_examples=2000, deadline=None, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "default")


def pytest_configure(config: pytest.Config) -> None:
    """Where several workers will run and the kernels are not compiled: start to compile them."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput") and warming.is_cold():
        config.stash[COMPILING] = warming.start()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave no process behind."""
    compiling = config.stash.get(COMPILING, None)
    if compiling is not None:
        compiling.terminate()
        compiling.wait()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker what all of them must agree on."""
    node.workerinput["cold"] = COMPILING in node.config.stash


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> scheduling.Scheduling:
    """How tests are given out to workers."""
    return scheduling.Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests for workers: the long ones first, or those that can run while the kernels are compiled."""
    scheduling.check_groups(items)
    if hasattr(config, "workerinput"):
        cold = bool(config.workerinput["cold"])
        items.sort(key=lambda item: scheduling.rank(item.nodeid, cold=cold))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Wait for the kernels before the clock of the test runs."""
    if hasattr(item.config, "workerinput") and not scheduling.needs_no_kernel(item.nodeid):
        warming.wait()
    return (yield)


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
