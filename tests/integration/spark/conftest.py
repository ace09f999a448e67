"""A Spark session shared by the tests of this folder: starting one takes as long as most tests."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from castleguard.errors import UsageError
from castleguard.spark.session import check_installed, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARDS = 4


@pytest.fixture(scope="session")
def needs_spark() -> None:
    """Skip if Spark cannot start."""
    try:
        check_installed()
    except UsageError as exc:
        pytest.skip(f"needs Spark and Java: {exc}")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture(scope="session")
def spark(needs_spark: None) -> Iterator["SparkSession"]:
    """A local session with two tasks at a time."""
    opened = session({}, SHARDS, master="local[2,4]")
    yield opened
    opened.stop()
