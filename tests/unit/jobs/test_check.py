"""The checklist of a job, as a value."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from castleguard.errors import ConfigError, Mistake
from castleguard.jobs.check.checklist import Check, Checklist, refused
from castleguard.jobs.check.job_checks import check_file
from castleguard.jobs.load import load

Write = Callable[..., Path]


def test_every_check_names_its_place_and_a_good_job_its_promise(write_job: Write) -> None:
    found = check_file(write_job())
    assert found.ok
    assert found.readable
    assert {"schema", "privacy", "source", "sink", "checkpoint"} <= {check.place for check in found}
    assert found.guarantee is not None
    assert found.guarantee.k == 2
    assert str(found).endswith(found.guarantee.paragraphs())


def test_mistakes_of_the_file_are_checks_with_file_line_and_key(write_job: Write) -> None:
    path = write_job(privacy="{algorithm: castle, k: 1, delay: 20}", checkpont="{}")
    found = check_file(path)
    assert not found.readable
    assert not found.ok
    assert [(check.where, check.place) for check in found] == [(f"{path}:4", "privacy.k"), (f"{path}:7", "checkpont")]
    assert all(check.status == "bad" for check in found)


def test_a_mistake_in_the_schema_file_has_the_line_of_that_file(write_job: Write, tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text("person: p\nquasi_identifiers: [{name: age, lower: 0, uper: 9}]\n")
    (check, *_) = check_file(write_job(schema="{file: schema.yaml}"))
    assert check.where == f"{tmp_path / 'schema.yaml'}:2"
    assert check.place == "quasi_identifiers[0].uper"


def test_places_that_collide_are_checks_with_their_key(write_job: Write) -> None:
    path = write_job(dead_letter="{path: state/job.db}")
    (check,) = check_file(path)
    assert (check.where, check.place) == (f"{path}:7", "dead_letter.path")
    assert check.what == "is the same file as the checkpoint: name another"


def test_the_json_form_survives_a_round_trip(write_job: Write) -> None:
    found = check_file(write_job(source="{type: csv, path: absent.csv}"))
    data = json.loads(json.dumps(found.as_json()))
    assert data["ok"] is False
    assert data["guarantee"] is None
    (bad,) = [check for check in data["checks"] if check["status"] == "bad"]
    assert bad["place"] == "source"
    assert bad["remedy"] == "correct source.path (relative to the job file)"


def test_only_unavailable_services_are_temporary() -> None:
    away, wrong = Check("source", "is away", "bad", temporary=True), Check("sink", "is wrong", "bad")
    assert Checklist((away,)).temporary
    assert not Checklist((away, wrong)).temporary


@pytest.mark.parametrize(
    ("check", "line"),
    [
        (Check("source", "is there"), "✓ source: is there"),
        (Check("", "is whole", "doubtful", "look"), "! is whole\n    -> look"),
        (Check("privacy.k", "is missing", "bad", where="job.yaml:3"), "✗ job.yaml:3  privacy.k is missing"),
    ],
)
def test_a_check_reads_as_one_line_and_its_remedy(check: Check, line: str) -> None:
    assert str(check) == line


def test_mistakes_can_be_distinguished_without_their_message() -> None:
    error = ConfigError(Mistake("is missing", where="a  b.yaml:3", key="k"), "something else")
    assert str(error) == "a  b.yaml:3  k is missing\nsomething else"
    assert [(check.where, check.place, check.what) for check in refused(error)] == [
        ("a  b.yaml:3", "k", "is missing"),
        ("", "", "something else"),
    ]


def test_an_error_of_a_job_file_has_its_mistakes(write_job: Write) -> None:
    path = write_job(privacy=None, sink=None)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert [mistake.key for mistake in caught.value.mistakes] == ["privacy", "sink"]
