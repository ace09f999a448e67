"""A job in one's own process."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import castleguard as cg
from castleguard.errors import ConfigError, UsageError
from castleguard.telemetry.metrics import Status
from tests.patience import WHOLE_RUN
from tests.unit.jobs.conftest import ROWS

Write = Callable[..., Path]


def test_a_job_runs_to_its_end_and_keeps_books(write_job: Write, tmp_path: Path) -> None:
    job = cg.load_job(write_job())
    seen: list[Status] = []
    assert job.run(watch=seen.append) == "finished"
    assert job.books().rows_in == ROWS
    assert job.status().state == seen[-1].state == "finished"
    assert list((tmp_path / "out").glob("part-*"))
    assert cg.check(job).ok
    assert job.run() == "finished"  # nothing new


def test_a_dry_run_delivers_and_keeps_nothing(write_job: Write, tmp_path: Path) -> None:
    job = cg.load_job(write_job())
    assert job.run(dry_run=True) == "finished"
    assert job.books().rows_in == ROWS
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "state" / "job.db").exists()


def test_a_stop_ends_the_run_and_the_next_one_restores_it(write_job: Write, tmp_path: Path) -> None:
    path = write_job(source="{type: csv, path: in, follow: true}")
    (tmp_path / "in").mkdir()
    job = cg.load_job(path)
    outcomes: list[str] = []
    running = threading.Event()
    thread = threading.Thread(target=lambda: outcomes.append(job.run(watch=lambda _: running.set())))
    thread.start()
    assert running.wait(WHOLE_RUN)
    with pytest.raises(UsageError, match="is already running"):
        job.run()
    job.stop()
    thread.join(WHOLE_RUN)
    assert outcomes == ["stopped"]
    assert job.status().state == "stopped"
    job.stop()
    assert job.run() == "stopped"  # asked before it began


def test_a_job_has_no_books_before_it_runs(write_job: Write) -> None:
    job = cg.load_job(write_job())
    assert job.status().state == "starting"
    with pytest.raises(UsageError, match="has not run"):
        job.books()


def test_a_job_shows_its_parts_and_no_option(write_job: Write) -> None:
    job = cg.load_job(write_job())
    assert repr(job) == "Job(visits: csv to csv)"
    assert (job.name, job.schema.person, job.policy.k) == ("visits", "patient", 2)


def test_a_job_or_its_file_can_be_explained_and_checked(write_job: Write) -> None:
    path = write_job()
    assert str(cg.explain(path)) == str(cg.explain(cg.load_job(path)))
    assert cg.check(path) == cg.check(cg.load_job(path))


def test_a_file_with_mistakes_is_checked_and_cannot_be_loaded(write_job: Write) -> None:
    path = write_job(privacy=None)
    with pytest.raises(ConfigError):
        cg.load_job(path)
    assert [check.place for check in cg.check(path)] == ["privacy"]


def test_a_schema_is_loaded_from_a_file_or_a_mapping(tmp_path: Path) -> None:
    mapping = {"person": "pid", "quasi_identifiers": [{"name": "age", "lower": 0, "upper": 100}]}
    (tmp_path / "schema.yaml").write_text("person: pid\nquasi_identifiers: [{name: age, lower: 0, upper: 100}]\n")
    assert cg.load_schema(mapping).fingerprint() == cg.load_schema(tmp_path / "schema.yaml").fingerprint()


def test_mistakes_of_a_mapping_have_keys_and_no_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        cg.load_schema({"person": "pid", "quasi_identifiers": [{"name": "age", "lower": "x", "uper": 3}]})
    assert all(mistake.where == "" for mistake in caught.value.mistakes)
    assert "quasi_identifiers[0].uper" in [mistake.key for mistake in caught.value.mistakes]
