"""Spark session for castleguard: requirements, settings, and silencing of Java.

Missing requirements are detected before pyspark is used, because its own error would be a page of Java. The output of
the Java process is discarded, because its stack traces may contain values of rows; CASTLEGUARD_DEBUG=1 shows it.
"""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from castleguard.config.spark_section import check_settings, fixed_settings
from castleguard.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17
SPARK = 4
EXTRA = "pip install 'castleguard[spark]'"

_USUAL = {
    # Store only the changes of each micro-batch, not the whole state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The state contains raw rows and keys: keep no more of it than a restore needs.
    "spark.sql.streaming.minBatchesToRetain": "3",
    # Spark broadcasts a larger plan, which fails for streams; a large hierarchy makes a large plan.
    "spark.broadcast.UDFCompressionThreshold": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_NEEDED = {"pyspark": "pyspark", "pandas": "pandas", "google.protobuf": "protobuf"}
_GATEWAY = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has started Java already
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS = 30.0
_HERE = "127.0.0.1"


class Found(NamedTuple):
    """Installed versions."""

    spark: str
    java: str


def check_installed() -> Found:
    """Return the installed versions. Raises UsageError if a requirement of Spark is missing."""
    missing = [name for module, name in _NEEDED.items() if not _is_installed(module)]
    if missing:
        raise UsageError(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: {EXTRA}")
    spark = importlib.metadata.version("pyspark")
    if int(spark.partition(".")[0]) < SPARK:
        raise UsageError(f"pyspark {spark} is too old, castleguard needs {SPARK}.0 or later: {EXTRA}")
    return Found(spark, "" if os.environ.get(_GATEWAY) else _check_java())


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def _check_java() -> str:
    """Return the version of the Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    advice = f"Spark {SPARK} needs Java {JAVA} or later: install it, or set JAVA_HOME"
    if java is None:
        raise UsageError(f"Java is not installed. {advice}")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        where = f"JAVA_HOME is {home}, but has no working Java" if home else f"{java} does not respond"
        raise UsageError(f"{where}. {advice}") from exc
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is None:
        raise UsageError(f"{java} does not report its version. {advice}")
    if int(found.group(1)) < JAVA:
        raise UsageError(f"{java} is Java {found.group(1)}. {advice}")
    return found.group(1)


def session(
    settings: Mapping[str, str], shards: int, master: str | None = None, *, name: str = "castleguard"
) -> "SparkSession":
    """Return a session for shards. Refuses `settings` that would break the guarantee.

    `master` defaults to that in the settings, that of spark-submit, or all cores of this machine.
    """
    check_settings(settings, shards)
    check_installed()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the same packages
    chosen = {**_USUAL, "spark.app.name": name, **settings, **fixed_settings()}
    chosen["spark.sql.shuffle.partitions"] = str(shards)
    if master is not None:
        chosen["spark.master"] = master
    elif "spark.master" not in chosen and not os.environ.get(_GATEWAY):
        chosen["spark.master"] = "local[*,4]"  # four attempts for a task, as in a cluster; local[*] allows one
    if chosen.get("spark.master", "").startswith("local"):
        # No other machine needs to reach the driver.
        chosen = {"spark.driver.host": _HERE, "spark.driver.bindAddress": _HERE, **chosen}
    with quiet_java(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder
        for key, value in chosen.items():
            builder = builder.config(key, value)
        try:
            made = builder.getOrCreate()
        except Exception as exc:  # pyspark raises a dozen types, whose messages are pages of Java
            raise UsageError(
                f"Spark cannot be started ({type(exc).__name__}): check spark.settings and the master; "
                f"CASTLEGUARD_DEBUG=1 shows Spark's own message"
            ) from exc
    if not _debugging():
        made.sparkContext.setLogLevel("OFF")
    return made


@contextmanager
def quiet_java() -> Iterator[None]:
    """Discard the output of processes started in the block, for as long as they live."""
    if _debugging():
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)


def _debugging() -> bool:
    return bool(os.environ.get("CASTLEGUARD_DEBUG"))
