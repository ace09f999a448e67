"""Parameters that the CASTLEGUARD policy refuses, and its statement."""

import math
from collections.abc import Mapping

import pytest

import castleguard as cg
from castleguard.errors import PolicyError, SchemaError

AGE = cg.Numeric("age", lower=0, upper=100)
JOB = cg.Sensitive("job", values=["cook", "nurse"])
SCHEMA = cg.Schema(person="pid", quasi_identifiers=[AGE], sensitive=[JOB], public=["clinic"])
PAPER: Mapping[str, object] = {"k": 20, "delay": 200, "mode": "paper", "phi": 100.0}
STRICT: Mapping[str, object] = {"k": 20, "delay": 200, "epsilon": 2.0}


def policy(base: Mapping[str, object], **changed: object) -> cg.Castleguard:
    return cg.Castleguard(**{**base, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base", "changed", "message"),
    [
        (STRICT, {"epsilon": None}, "give either epsilon .* or phi"),
        (STRICT, {"phi": 1.0}, "give either epsilon"),
        (STRICT, {"epsilon": 0}, "epsilon must be a number above 0, got 0"),
        (STRICT, {"epsilon": None, "phi": 0}, "phi must be a number above 0, got 0"),
        (STRICT, {"epsilon": None, "phi": 1, "weights": {"age": 2}}, "weights split epsilon"),
        (STRICT, {"sample_rate": 0}, "sample_rate must be a number above 0 and at most 1, got 0"),
        (STRICT, {"sample_rate": 1.5}, "sample_rate must be a number above 0 and at most 1, got 1.5"),
        (STRICT, {"l": 21}, "l must not be above k"),
        (STRICT, {"range_floor": 1.0}, "range_floor belongs to mode='paper'"),
        (STRICT, {"clock": "sampled"}, "clock='sampled' belongs to mode='paper'"),
        (STRICT, {"window": 10.0}, "window needs rows_per_person"),
        (STRICT, {"rows_per_person": 0}, "rows_per_person must be a whole number of at least 1, got 0"),
        (STRICT, {"rows_per_person": 1.5}, "rows_per_person must be a whole number"),
        (STRICT, {"rows_per_person": 1, "window": 0}, "window must be a number above 0, got 0"),
        (STRICT, {"dp_delta": 1.0}, "dp_delta must be a number of at least 0 and below 1, got 1.0"),
        (STRICT, {"window_unit": "days"}, "window_unit must be 'seconds' or 'rows', got 'days'"),
        (STRICT, {"noise": "none"}, "noise must be 'here' or 'edge', got 'none'"),
        (PAPER, {"phi": None}, "mode='paper' needs phi"),
        (PAPER, {"phi": -1}, "phi must be a number above 0, got -1"),
        (PAPER, {"rows_per_person": 1}, "rows_per_person belongs to strict mode"),
        (PAPER, {"weights": {"age": 1}}, "weights belongs to strict mode"),
        (PAPER, {"grouping": "citadel"}, "grouping='citadel' belongs to strict mode"),
        (STRICT, {"grouping": "citadel", "max_clusters": 20}, "max_clusters belongs to grouping='castle'"),
        (STRICT, {"grouping": "citadel", "l": 2, "l_per": "person"}, "l_per belongs to grouping='castle'"),
        (STRICT, {"grouping": "citadel", "order": "arrival"}, "order='arrival' reveals which row is whose"),
        (PAPER, {"noise": "edge"}, "noise='edge' belongs to strict mode"),
        (PAPER, {"clock": "time"}, "clock='time' needs max_wait"),
        (PAPER, {"range_floor": -1}, "range_floor must be a number of at least 0, got -1"),
        (PAPER, {"sample_rate": 0.9, "epsilon": 1}, r"epsilon must be at least -ln\(1 - sample_rate\)"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(
    base: Mapping[str, object], changed: dict[str, object], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        policy(base, **changed)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            cg.Schema(person="p", quasi_identifiers=[cg.Numeric("age")]),
            "column 'age': lower and upper are needed in strict mode",
        ),
        (
            cg.Schema(person="p", quasi_identifiers=[AGE], sensitive=["job"]),
            "column 'job' needs declared values",
        ),
    ],
)
def test_strict_noise_needs_public_domains(schema: cg.Schema, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        cg.Anonymiser(schema, policy(STRICT))


def test_a_bound_per_person_needs_persons() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[AGE])
    with pytest.raises(PolicyError, match="rows_per_person needs a person column"):
        cg.Anonymiser(schema, policy(STRICT, rows_per_person=2))


def claim(chosen: cg.Castleguard) -> list[float]:
    privacy = chosen.guarantee(SCHEMA, seeded=False).privacy
    assert privacy is not None
    return [privacy.epsilon, privacy.dp_delta]


def test_a_row_spends_its_epsilon_for_any_weights() -> None:
    assert claim(policy(STRICT)) == pytest.approx([2.0, 0.0])
    assert claim(policy(STRICT, weights={"age": 5})) == pytest.approx([2.0, 0.0])
    assert policy(STRICT, weights={"age": 3}).shares(SCHEMA) == {"age": 1.5, "job": 0.5}


def test_phi_is_the_epsilon_of_each_column() -> None:
    assert claim(policy(STRICT, epsilon=None, phi=0.75)) == pytest.approx([1.5, 0.0])


def test_the_stated_epsilon_is_never_below_the_exact_sum() -> None:
    for epsilon in (0.1, 0.3, 1 / 3, 2.7):
        exact = sum(policy(STRICT, epsilon=epsilon).shares(SCHEMA).values())
        assert claim(policy(STRICT, epsilon=epsilon))[0] >= exact


def test_a_person_spends_the_smallest_composed_loss() -> None:
    assert claim(policy(STRICT, rows_per_person=3)) == pytest.approx([6.0, 0.0])
    few = policy(STRICT, epsilon=0.1, rows_per_person=400)
    epsilon, delta = claim(few)
    assert few.spent(SCHEMA).method == "zCDP"
    assert epsilon < 40 / 2
    assert delta == 1e-6
    assert claim(policy(STRICT, epsilon=0.1, rows_per_person=400, dp_delta=0)) == pytest.approx([40.0, 0.0])


def test_a_seed_voids_the_claim_and_is_stated() -> None:
    guarantee = policy(STRICT).guarantee(SCHEMA, seeded=True)
    assert guarantee.privacy is not None
    assert guarantee.privacy.void
    assert "VOID" in str(guarantee)


def test_the_strict_statement_names_unit_neighbours_horizon_and_what_is_not_covered() -> None:
    said = str(policy(STRICT, rows_per_person=3, window=60.0, sample_rate=0.5).guarantee(SCHEMA, seeded=False))
    for part in (
        "(6, 0)-differential privacy of all rows of one person",
        "their values replaced by any others",
        "over any 60 seconds",
        "for age, job",
        "Outside this claim: that a row is there, whose it is and when it came, clinic",
        "keyed by the operating system",
        "Sampling (0.5) is not counted",
    ):
        assert part in said
    assert "rows_per_person would bound it" in str(policy(STRICT).guarantee(SCHEMA, seeded=False))


@pytest.mark.parametrize("clock", [None, "arrivals"])
def test_paper_mode_claims_nothing_with_the_clock_that_counts_arrivals(clock: str | None) -> None:
    guarantee = policy(PAPER, sample_rate=0.5, clock=clock).guarantee(SCHEMA, seeded=False)
    assert guarantee.privacy is None
    assert "No differential privacy: a row that is sampled out still moves the clock" in str(guarantee)
    assert "Theorem 2 would give (1, 0.000772): NOT claimed" in str(guarantee)


@pytest.mark.parametrize(("clock", "max_wait"), [("sampled", None), ("time", 10.0)])
def test_paper_mode_claims_the_sampling_rate_where_a_dropped_row_leaves_no_trace(
    clock: str, max_wait: float | None
) -> None:
    guarantee = policy(PAPER, sample_rate=0.5, clock=clock, max_wait=max_wait).guarantee(SCHEMA, seeded=False)
    assert guarantee.privacy is not None
    assert (guarantee.privacy.epsilon, guarantee.privacy.dp_delta) == (0.0, 0.5)
    assert "with probability 0.5 a row may be exposed fully" in str(guarantee)
    assert "NOT claimed" in str(guarantee)
    assert "sampled rows after its own" in str(guarantee)
    assert "Outside this claim: when a row is published, and in which part of the output." in str(guarantee)


def test_without_sampling_paper_mode_claims_nothing() -> None:
    guarantee = policy(PAPER, clock="sampled").guarantee(SCHEMA, seeded=False)
    assert guarantee.privacy is None
    assert "No differential privacy: every row is kept" in str(guarantee)


def test_theorem_2_is_shown_at_the_given_epsilon() -> None:
    said = str(policy(PAPER, sample_rate=0.5, epsilon=2.0).guarantee(SCHEMA, seeded=False))
    assert "Theorem 2 would give (2, 1.05e-05): NOT claimed" in said
    least = -math.log(0.1)
    assert f"({least:.4g}, " in str(policy(PAPER, sample_rate=0.9).guarantee(SCHEMA, seeded=False))


def test_policies_that_decide_differently_have_different_fingerprints() -> None:
    base = policy(STRICT).fingerprint()
    assert base == policy(STRICT, clock="arrivals").fingerprint()
    others: list[tuple[str, object]] = [("epsilon", 3.0), ("sample_rate", 0.5), ("rows_per_person", 2)]
    for name, value in others:
        assert policy(STRICT, **{name: value}).fingerprint() != base
    assert base["algorithm"] == "castleguard"


def test_grouping_by_castle_has_the_fingerprint_of_older_snapshots() -> None:
    plain, grouped = policy(STRICT), policy(STRICT, grouping="citadel")
    assert "grouping" not in plain.fingerprint()
    assert grouped.fingerprint() == {**plain.fingerprint(), "grouping": "citadel"}


def test_citadel_behind_noise_promises_each_release_and_the_same_epsilon() -> None:
    plain, grouped = policy(STRICT), policy(STRICT, grouping="citadel")
    stated = grouped.guarantee(SCHEMA, seeded=False)
    assert "in each release by itself, at least 20 distinct persons" in stated.promise
    assert stated.privacy == plain.guarantee(SCHEMA, seeded=False).privacy
    limits = " ".join(stated.limits)
    assert "groups are made of randomised values" in limits
    assert "void if the same rows are published by a second run" in limits
    assert "Not promised: differential privacy" not in limits
    assert grouped.publication(SCHEMA).each_release == "shares"
    assert grouped.publication(SCHEMA).noisy
    assert any("bursts" in words for words in grouped.waits(endless=False))
    assert not any("bursts" in words for words in plain.waits(endless=False))


@pytest.mark.parametrize("noise", ["here", "edge"])
def test_every_release_of_citadel_behind_noise_has_k_persons_in_each_box(noise: str) -> None:
    rows = [{"pid": n % 150, "age": n * 7 % 100, "job": ("cook", "nurse")[n % 2], "clinic": n} for n in range(1200)]
    grouped = policy(STRICT, k=5, l=2, grouping="citadel", noise=noise, sample_rate=0.9)
    stream = cg.Anonymiser(SCHEMA, grouped, seed=3)
    released = [stream.push([row]) for row in rows[:600]]
    stream = cg.Anonymiser.restore(SCHEMA, grouped, stream.snapshot())
    released += [stream.push([row]) for row in rows[600:]]
    released.append(stream.flush())
    report = stream.report()
    assert report.published == sum(table.num_rows for table in released)
    assert report.published + report.suppressed + report.sampled_out == 1200
    assert report.published > 900
    assert (report.reused, report.gate_refused) == (0, 0)
    for table in released:
        persons: dict[tuple[object, object], list[int]] = {}
        for row in table.to_pylist():
            persons.setdefault((row["age_min"], row["age_max"]), []).append(row["clinic"] % 150)
        for group in persons.values():
            assert len(group) >= 5 * max(group.count(person) for person in group)
