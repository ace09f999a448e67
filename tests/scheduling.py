"""Which tests one worker runs together, and in which order work is given out, when tests run in parallel.

The tests of a file stay together, because they share what its fixtures make. Those that share a broker or a Java
process stay together across files, so that it starts once. Where single tests take long, each is given out alone. Long
ones come first: a worker that begins one at the end would leave the others idle.
"""

from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARED = {"kafka_broker": "kafka", "needs_spark": "spark"}
"""The group of the tests that ask for a fixture; `group_of` knows them by their names."""
ALONE = (
    "tests/golden/",
    "tests/integration/",
    "tests/properties/",
    "tests/recovery/",
    "tests/statistical/",
    "tests/unit/cli/",
)
FIRST = ("spark", "kafka", *ALONE, "tests/reference/", "tests/unit/lab/", "tests/unit/judge/")
WITHOUT_KERNELS = (
    "tests/contract/",
    *(f"tests/unit/{name}/" for name in ("checkpoint", "config", "connectors", "privacy", "telemetry")),
)


def group_of(nodeid: str) -> str:
    """The group of a test, by its name alone: all that the process knows which gives out the work."""
    path, _, rest = nodeid.partition("::")
    name = PurePosixPath(path).name
    if path.startswith("tests/integration/spark/"):
        return "spark"
    if path.startswith("tests/integration/") and ("kafka" in name or "kafka" in rest):
        return "kafka"
    if path == "tests/contract/test_sinks.py" and "[kafka" in rest:
        return "kafka"
    if path.startswith(ALONE):
        return nodeid
    return path


def needs_no_kernel(nodeid: str) -> bool:
    """Whether a test can run while the kernels are compiled. If it needs one all the same, it compiles that itself."""
    return nodeid.startswith(WITHOUT_KERNELS)


def rank(nodeid: str, *, cold: bool) -> tuple[bool, int]:
    """How early a test is given out; `cold`: the kernels are being compiled."""
    group = group_of(nodeid)
    place = next((place for place, start in enumerate(FIRST) if group.startswith(start)), len(FIRST))
    return cold and not needs_no_kernel(nodeid), place


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives out groups in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def check_groups(items: list[pytest.Item]) -> None:
    """Raise UsageError for a test that shares a process with others, but not their group."""
    for item in items:
        for fixture, group in SHARED.items():
            if fixture in getattr(item, "fixturenames", ()) and group_of(item.nodeid) != group:
                raise pytest.UsageError(f"{item.nodeid} uses {fixture}: let tests/scheduling.py put it into {group!r}")
