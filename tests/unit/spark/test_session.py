"""Requirements and settings of a Spark session. No Spark is started here."""

import importlib.metadata
import importlib.util
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from castleguard.errors import ConfigError, UsageError
from castleguard.spark import session as module
from castleguard.spark.session import check_installed, quiet_java, session


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A JAVA_HOME whose version can be chosen."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    install(tmp_path, 'openjdk version "17.0.2" 2022-01-18')
    return tmp_path


def install(home: Path, answer: str) -> None:
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def pyspark(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Pretend that pyspark 4.1.0 and its requirements are installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.1.0")
    return {}


def test_installed_versions_are_returned(java: Path, pyspark: dict[str, str]) -> None:
    assert check_installed() == ("4.1.0", "17")


def test_missing_package_is_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"pyspark", "google.protobuf"}

    def find(name: str) -> object:
        if name == "google.protobuf":
            raise ModuleNotFoundError("google")
        return None if name in missing else object()

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(UsageError) as caught:
        check_installed()
    assert str(caught.value) == "pyspark and protobuf are not installed: pip install 'castleguard[spark]'"


def test_old_pyspark_is_refused(java: Path, pyspark: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.5.1")
    with pytest.raises(UsageError, match=r"pyspark 3\.5\.1 is too old, castleguard needs 4\.0 or later"):
        check_installed()


def test_missing_java_names_the_required_version(pyspark: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError) as caught:
        check_installed()
    assert str(caught.value) == ("Java is not installed. Spark 4 needs Java 17 or later: install it, or set JAVA_HOME")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('java version "1.8.0_301"', "is Java 8. "),
        ('openjdk version "11.0.2"', "is Java 11. "),
        ("?", "does not report"),
    ],
)
def test_old_java_is_refused(java: Path, pyspark: dict[str, str], answer: str, message: str) -> None:
    install(java, answer)
    with pytest.raises(UsageError, match="Spark 4 needs Java 17 or later") as caught:
        check_installed()
    assert message in str(caught.value)


def test_java_home_without_java_is_reported(java: Path, pyspark: dict[str, str]) -> None:
    (java / "bin" / "java").unlink()
    with pytest.raises(UsageError, match=f"JAVA_HOME is {java}, but has no working Java"):
        check_installed()


def test_spark_submit_brings_its_own_java(pyspark: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1234")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert check_installed().java == ""


class Builder:
    """Records settings like pyspark's builder."""

    def __init__(self, fails: bool) -> None:
        self.settings: dict[str, str] = {}
        self.level = ""
        self._fails = fails

    @property
    def sparkContext(self) -> "Builder":  # noqa: N802
        return self

    def config(self, name: str, value: str) -> "Builder":
        self.settings[name] = value
        return self

    def setLogLevel(self, level: str) -> None:  # noqa: N802
        self.level = level

    def getOrCreate(self) -> "Builder":  # noqa: N802
        if self._fails:
            raise RuntimeError("a page of Java, with row 17")
        return self


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    return fake(monkeypatch)


def fake(monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> Builder:
    made = Builder(fails)
    stand_in: Any = ModuleType("pyspark.sql")
    stand_in.SparkSession = type("SparkSession", (), {"builder": made})
    monkeypatch.setitem(sys.modules, "pyspark.sql", stand_in)
    monkeypatch.setattr(module, "check_installed", lambda: None)
    for name in ("PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "CASTLEGUARD_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return made


def test_session_has_the_settings_for_shards(builder: Builder) -> None:
    session({"spark.executor.memory": "4g"}, 3)
    found = builder.settings
    assert found["spark.sql.streaming.stateStore.providerClass"].endswith("RocksDBStateStoreProvider")
    assert found["spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"] == "true"
    assert found["spark.sql.shuffle.partitions"] == "3"
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert found["spark.executor.memory"] == "4g"
    assert found["spark.master"] == "local[*,4]"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_session_is_quiet_unless_debugging(builder: Builder) -> None:
    session({}, 1)
    assert (builder.settings["spark.ui.enabled"], builder.settings["spark.ui.showConsoleProgress"]) == (
        "false",
        "false",
    )
    assert builder.level == "OFF"
    session({"spark.ui.enabled": "true"}, 1)
    assert builder.settings["spark.ui.enabled"] == "true"


@pytest.mark.parametrize(
    ("settings", "master", "chosen"),
    [
        ({}, "local[2]", "local[2]"),
        ({"spark.master": "yarn"}, None, "yarn"),
        ({"spark.master": "yarn"}, "local", "local"),
    ],
)
def test_named_master_is_used(builder: Builder, settings: dict[str, str], master: str | None, chosen: str) -> None:
    session(settings, 1, master)
    assert builder.settings["spark.master"] == chosen


def test_setting_that_breaks_the_guarantee_is_refused_before_the_start(builder: Builder) -> None:
    with pytest.raises(ConfigError, match=r"spark\.speculation"):
        session({"spark.speculation": "true"}, 1)
    assert builder.settings == {}


def test_failed_start_of_a_session_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, fails=True)
    with pytest.raises(UsageError) as caught:
        session({}, 1)
    assert str(caught.value).startswith("Spark cannot be started (RuntimeError): check spark.settings and the master")
    assert "row 17" not in str(caught.value)


def test_processes_started_quietly_stay_silent_and_our_output_returns(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CASTLEGUARD_DEBUG", raising=False)
    shout = ["sh", "-c", "echo out; echo err >&2"]
    with quiet_java():
        subprocess.run(shout, check=True)
    os.write(1, b"after\n")
    assert capfd.readouterr() == ("after\n", "")
    monkeypatch.setenv("CASTLEGUARD_DEBUG", "1")
    with quiet_java():
        subprocess.run(shout, check=True)
    assert capfd.readouterr() == ("out\n", "err\n")
