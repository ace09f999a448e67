"""The game gives the same result in any number of processes, in words and figures."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import castleguard as cg
from castleguard.errors import UsageError
from castleguard.judge.attack.evidence import Claim
from castleguard.judge.attack.features import Observer, Published
from castleguard.judge.attack.membership_game import Seen
from castleguard.judge.game import game
from castleguard.judge.game.claims import Stated
from castleguard.judge.game.game import Played, judge_all, play
from castleguard.judge.game.settings import Setting, setting_for
from castleguard.judge.game.verdicts import NOT_PROVED, audit_of, text_of
from castleguard.judge.publishing import publisher
from castleguard.schema.table import to_table
from castleguard.telemetry.logs import LOG
from tests.unit.judge.audit.played import ARRIVALS, SAMPLED, coins, outcome, with_claims


@cache
def small() -> Setting:
    """A stream of few rows, under noise so that runs differ."""
    setting = setting_for(cg.Castleguard(k=2, delay=5, epsilon=4))
    rows = setting.background[:12]
    return replace(setting, background=rows, canaries=[replace(each, at=min(each.at, 6)) for each in setting.canaries])


# Playing


@pytest.mark.compiled
def test_parts_give_the_same_result_as_single_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game, "RUNS_AT_ONCE", 7)
    setting = replace(setting_for(cg.Castle(k=2, delay=5)), background=small().background)
    canaries = [replace(each, at=min(each.at, 6)) for each in setting.canaries][:3]
    publish = publisher(setting.schema, setting.policy)
    for found, canary in zip(play(replace(setting, canaries=canaries), runs=20), canaries, strict=True):
        look = Observer(setting.schema, canary.known, place=canary.place)
        expected = [
            [look(publish(to_table(rows), side * 20 + run)) for run in range(20)]
            for side, rows in enumerate(canary.streams(setting.background))
        ]
        assert found.canary == canary.name
        assert found.features == tuple(expected[0][0])
        assert found.one.tolist() == [[run[name] for name in found.features] for run in expected[0]]
        assert found.other.tolist() == [[run[name] for name in found.features] for run in expected[1]]


@pytest.mark.compiled
def test_one_process_and_two_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game, "RUNS_AT_ONCE", 10)
    setting = replace(small(), canaries=small().canaries[:2])
    reported: list[float] = []
    one, two = play(setting, runs=20, seed=4), play(setting, runs=20, seed=4, jobs=2, progress=reported.append)
    for here, there in zip(one, two, strict=True):
        assert here.features == there.features
        assert np.array_equal(here.one, there.one)
        assert np.array_equal(here.other, there.other)
    assert len(np.unique(one[0].one, axis=0)) > 1
    assert reported == sorted(reported)
    assert reported[-1] == 1
    assert judge_all(setting, one, runs=20) == judge_all(setting, two, runs=20)


def test_stream_shared_by_canaries_is_published_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def publish(stream: object, seed: int) -> Published:
        asked.append((stream.num_rows, seed))  # type: ignore[attr-defined]
        return []

    monkeypatch.setattr(game, "publisher", lambda *_, **__: publish)
    setting = replace(setting_for(ARRIVALS), features=lambda _: {"nothing": 0.0})
    play(setting, runs=20, seed=100)
    # Five streams with a canary and two without: four canaries share one, and the other has the repeated person.
    assert len(asked) == (5 + 2) * 20
    assert {seed for rows, seed in asked if rows == 150} == set(range(120, 140))
    assert sum(rows == 150 for rows, _ in asked) == 20


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(UsageError, match="runs must be at least 20"):
        play(setting_for(ARRIVALS), runs=19)


def test_log_level_is_restored_after_a_game() -> None:
    level = LOG.level
    with pytest.raises(UsageError):
        play(setting_for(ARRIVALS), runs=1)
    setting = replace(setting_for(ARRIVALS), canaries=[])
    assert play(setting, runs=20) == ()
    assert LOG.level == level


# The outcome


def test_own_claim_decides_the_verdict() -> None:
    """(0, 0.5) is kept by coins of 0.4 against 0, and not by coins of 0.9; both refute Theorem 2."""
    kept, broken = outcome(SAMPLED, coins(0.4, 0.0)), outcome(SAMPLED, coins(0.9, 0.0))
    assert [each.word for each in kept.judged] == ["not refuted", "REFUTED"]
    assert kept.ok
    assert [each.word for each in broken.judged] == ["REFUTED", "REFUTED"]
    assert not broken.ok


def test_without_a_claim_nothing_is_broken() -> None:
    played = outcome(cg.Castle(k=5, delay=100), coins(1.0, 0.0))
    assert played.own is None
    assert played.ok
    assert played.found.epsilon > 3
    assert "no differential privacy is claimed" in text_of(played)


def test_text_states_claims_bounds_and_counts() -> None:
    played = with_claims()
    text = text_of(played)
    assert SAMPLED.guarantee(setting_for(SAMPLED).schema, seeded=False).sentence in text
    assert "the policy itself claims (0, 0.5): not refuted" in text
    assert "Theorem 2 of the CASTLEGUARD paper claims (1, 0.000772): REFUTED" in text
    found = played.judged[1].verdict
    assert f"epsilon >= {found.epsilon:.2f} at delta 0.000772" in text
    assert f"up to {found.ceiling:.2f}" in text
    assert f"coin (rows with its s is at least 1: in {found.worst.seen:,} of 400 runs with it, in 0 without it)" in text
    assert NOT_PROVED in text
    assert "VOID" not in text  # the seeds are those of the game, not of the policy


def test_json_has_claims_and_figures() -> None:
    figures = json.loads(json.dumps(outcome(SAMPLED, coins(0.4, 0.0)).as_json()))
    assert figures["ok"] is True
    assert [(each["own"], each["refuted"]) for each in figures["claims"]] == [(True, False), (False, True)]
    assert figures["claims"][1]["claimed"]["epsilon"] == 1
    assert figures["claims"][1]["canaries"][0]["seen_other"] == 0
    assert (figures["runs"], figures["seed"], figures["background"]["rows"]) == (800, 3, 150)


def test_thresholds_of_real_rows_are_not_shown() -> None:
    """The threshold may be the value of a row."""
    draw = np.random.default_rng(1)
    seen = Seen("outlier", ("highest age",), draw.normal(8123, 1, (400, 1)), draw.normal(40, 1, (400, 1)))
    for made_up in (True, False):
        played = outcome(ARRIVALS, seen, made_up=made_up)
        shown = text_of(played) + json.dumps(played.as_json()) + repr(audit_of(played, policy="castleguard"))
        assert played.judged[0].verdict.refuted
        assert ("highest age is at least 8" in shown) == made_up
    assert "highest age is at least a threshold" in shown


def test_findings_have_the_right_status() -> None:
    def statuses(played: Played) -> list[str]:
        return [each.status for each in audit_of(played, policy="some").sections[0].findings]

    assert statuses(outcome(SAMPLED, coins(0.4, 0.0))) == ["passed", "warning"]
    assert statuses(outcome(SAMPLED, coins(0.9, 0.0))) == ["failed", "warning"]
    assert statuses(outcome(ARRIVALS, coins(0.4, 0.0))) == ["warning", "not checked"]
    assert statuses(outcome(cg.Castle(k=5, delay=100), coins(1.0, 0.0))) == ["not checked"]


def test_canary_finding_compares_with_the_claim() -> None:
    setting = replace(setting_for(ARRIVALS), claims=[Stated("the user", Claim(1.0, 0.0), own=False)])
    seen = [coins(0.9, 0.0, name="loud"), coins(0.7, 0.4, name="low"), coins(0.5, 0.5, name="silent")]
    audit = audit_of(judge_all(setting, seen, runs=800), policy="some")
    loud, low, silent = audit.sections[1].findings
    assert (loud.status, low.status, silent.status) == ("warning", "passed", "passed")
    assert "better than (1, 0) allows" in loud.sentence
    assert "no better than (1, 0) allows" in low.sentence
    assert "were not distinguished" in silent.sentence
