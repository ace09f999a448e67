"""The explanation of a job, as a value."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from castleguard.errors import ConfigError
from castleguard.jobs.explain.explanation import Section, explain_job
from castleguard.jobs.load import load

Write = Callable[..., Path]


def test_sections_and_columns_are_values_and_the_text_has_them_all(write_job: Write) -> None:
    found = explain_job(load(write_job()))
    assert found.job == "visits"
    assert [(each.column, each.role) for each in found.columns] == [
        ("age", "quasi-identifier"),
        ("illness", "sensitive"),
        ("patient", "person"),
    ]
    assert [section.title for section in found.sections][:2] == ["What each column becomes", "What is promised"]
    text = " ".join(str(found).split())
    for section in found.sections:
        for sentence in (*section.points, *section.sentences):
            assert " ".join(sentence.split()) in text


def test_the_json_form_survives_a_round_trip(write_job: Write) -> None:
    found = explain_job(load(write_job()))
    data = json.loads(json.dumps(found.as_json()))
    assert data["guarantee"]["k"] == 2
    assert data["columns"][0]["output"] == "age_min, age_max (whole number)"
    assert [section["title"] for section in data["sections"]] == [section.title for section in found.sections]


def test_a_policy_that_cannot_work_is_refused(write_job: Write) -> None:
    with pytest.raises(ConfigError, match="privacy cannot work"):
        explain_job(load(write_job(privacy="{algorithm: doca, epsilon: 1, k: 5, delay: 50}", numbers="interval")))


def test_points_are_indented_and_long_ones_wrap_under_themselves() -> None:
    text = str(Section("Title", points=("word " * 30,), sentences=("end",)))
    first, second, third, last = text.splitlines()
    assert (first, last) == ("Title", "end")
    assert second.startswith("  word")
    assert third.startswith("    word")
