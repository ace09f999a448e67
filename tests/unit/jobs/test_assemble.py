"""From a job file to live objects."""

from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from castleguard.connectors import registry
from castleguard.connectors.registry import Connector
from castleguard.errors import ConfigError
from castleguard.jobs.assemble import make_stream
from castleguard.jobs.endpoints import open_sink, open_source
from castleguard.jobs.load import Connectors, load
from tests.unit.config.test_job_file import job
from tests.unit.fake_connectors import CONNECTORS, FakeSink, install


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job file with fake connectors."""
    install(monkeypatch)
    (tmp_path / "in.csv").write_text("pid,age,illness\n1,30,flu\n2,40,cold\n")
    path = tmp_path / "job.yaml"
    path.write_text(job())
    return path


def test_a_job_gets_its_source_its_stream_and_its_sink(path: Path) -> None:
    found = load(path)
    with closing(open_source(found)) as source:
        read = source.read(0.0)
    assert read is not None
    assert read.rows.schema.names == ["pid", "age", "illness"]
    assert open_sink(found).last() == 0
    assert make_stream(found).guarantee().k == 10


def test_a_stream_continues_from_its_snapshot(path: Path) -> None:
    found = load(path)
    blob = make_stream(found).snapshot()
    assert make_stream(found, blob).report().rows_in == 0


def test_an_error_of_the_engine_has_the_line_of_the_policy(path: Path) -> None:
    path.write_text(job(privacy="{algorithm: doca, epsilon: 1, k: 5, delay: 50}", numbers="interval"))
    with pytest.raises(
        ConfigError, match=r"job\.yaml:6  privacy cannot work: numbers='interval' sets the form of ranges"
    ):
        make_stream(load(path))


def test_only_the_connectors_that_a_file_names_are_looked_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    find = registry.find

    def watch(kind: str) -> Connector:
        asked.append(kind)
        return find(kind)

    monkeypatch.setattr(registry, "find", watch)
    load(path)
    assert set(asked) == {"csv", "parquet"}


def test_a_connector_that_cannot_be_imported_is_a_problem_of_its_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(kind: str) -> Connector:
        raise ModuleNotFoundError("No module named 'client'")

    monkeypatch.setattr(registry, "find", missing)
    with pytest.raises(ConfigError, match=r"job\.yaml:7  source\.type cannot be used: the connector 'csv' cannot be"):
        load(path)


def test_the_options_of_connectors_are_a_mapping(path: Path) -> None:
    found = Connectors()
    assert len(found) == len(list(found)) == 4
    assert "kafka" in found
    with pytest.raises(KeyError):
        found["none"]


def test_an_option_whose_default_is_the_name_of_the_job_has_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Writer:
        """Who writes."""

        writer: str | None = field(default=None, metadata={"default": "job name"})

    opened: list[Any] = []

    def open_writer(options: Writer) -> FakeSink:
        opened.append(options)
        return FakeSink()

    found = replace(load(path), name="trips")
    monkeypatch.setitem(CONNECTORS, "csv", Connector(sink_options=Writer, open_sink=open_writer))
    for given in (None, "other"):
        open_sink(replace(found, sink=replace(found.sink, type="csv", options=Writer(writer=given))))
    assert [options.writer for options in opened] == ["trips", "other"]
