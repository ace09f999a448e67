"""DOCA in both modes through the public names: corner cases and the fate of rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.doca.paper_engine import DocaEngine
from castleguard.errors import PolicyError, SnapshotError, UsageError
from castleguard.kernels.chacha import RATCHET
from castleguard.kernels.doca import ARRIVALS, OLDEST
from castleguard.schema.coded import CodedRows

ONE = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x", lower=0, upper=100, step=1)])
MIXED = cg.Schema(
    person="pid",
    quasi_identifiers=[
        cg.Numeric("x", lower=0, upper=100, step=1),
        cg.Categorical("job", hierarchy=cg.Hierarchy.flat(["cook", "clerk", "other"]), default="other"),
    ],
    sensitive=[cg.Sensitive("ward", values=["a", "b"])],
)


def strict(**changed: Any) -> cg.Doca:
    return cg.Doca(**{"epsilon": 1.0, "k": 2, "delay": 10, **changed})


def paper(**changed: Any) -> cg.Doca:
    return cg.Doca(**{"epsilon": 1.0, "delay": 10, "mode": "paper", **changed})


BOTH = pytest.mark.parametrize("policy", [strict(), paper()], ids=["strict", "paper"])
SURE = 10_000.0  # an epsilon at which the noise vanishes, to see the means


def published(values: list[Any], policy: cg.Doca, schema: cg.Schema = ONE) -> list[float]:
    out: list[float] = cg.anonymise(pa.table({"x": values}), schema, policy, seed=1)["x"].to_pylist()
    return out


@BOTH
def test_no_rows_give_an_empty_table_with_columns(policy: cg.Doca) -> None:
    out = cg.anonymise(pa.table({"x": pa.array([], pa.float64())}), ONE, policy)
    assert out.num_rows == 0
    assert out.schema == pa.schema([("x", pa.float64())])


def test_one_value_is_below_k_and_dropped() -> None:
    stream = cg.Anonymiser(ONE, strict())
    assert stream.push([{"x": 50}]).num_rows == 0
    assert stream.flush().num_rows == 0
    assert stream.report().suppressed == 1


def test_as_printed_a_single_value_is_published_with_full_noise() -> None:
    assert published([50], paper(epsilon=SURE)) == pytest.approx([50], abs=1)
    noise = np.array([published([50], paper(epsilon=0.1 + seed * 1e-9))[0] - 50 for seed in range(3)])
    assert np.all(np.abs(noise) > 1)  # of scale 1,500


def test_equal_values_share_their_mean() -> None:
    assert published([42] * 20, strict(epsilon=SURE)) == [42] * 20


def test_as_printed_equal_values_fill_all_clusters_evenly() -> None:
    """A loss of 0 is not below a threshold of 0, so every row opens a cluster up to the limit."""
    stream = cg.Anonymiser(ONE, paper(max_clusters=3, delay=100), seed=1)
    stream.push(pa.table({"x": [42] * 9}))
    assert stream.report().open_clusters == 3
    out = stream.flush()["x"].to_pylist()
    assert sorted(out.count(value) for value in set(out)) == [3, 3, 3]


def test_as_printed_the_first_of_the_smallest_clusters_is_taken() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=ONE.quasi_identifiers, public=["row"])
    table = pa.table({"x": [42] * 5, "row": range(5)})
    out = cg.anonymise(table, schema, paper(max_clusters=2, delay=100), seed=1).to_pylist()
    assert [row["row"] for row in out] == [0, 2, 4, 1, 3]  # the third row goes to the first cluster, the fourth not
    assert len({row["x"] for row in out[:3]}) == len({row["x"] for row in out[3:]}) == 1


def test_as_the_authors_compare_equal_values_stay_together() -> None:
    stream = cg.Anonymiser(ONE, paper(max_clusters=3, delay=100, admission="le"), seed=1)
    stream.push(pa.table({"x": [42] * 9}))
    assert stream.report().open_clusters == 1


def test_a_window_of_k_rows_is_a_single_group() -> None:
    assert published([10, 20, 30], strict(k=3, delay=3, epsilon=SURE)) == pytest.approx([20] * 3, abs=0.5)


def test_as_printed_one_cluster_takes_everything() -> None:
    values = published([10, 20, 60], paper(max_clusters=1, epsilon=SURE))
    assert values == pytest.approx([30] * 3, abs=1)
    assert len(set(values)) == 1


def test_values_outside_the_bounds_count_as_the_bounds() -> None:
    assert published([-1e9, 1e9], strict(k=1, epsilon=SURE)) in ([0, 100], [100, 0])
    assert published([-1e9, 1e9], paper(epsilon=SURE)) == pytest.approx([0, 100], abs=1)


def test_strict_never_publishes_a_number_outside_the_bounds() -> None:
    out = published(list(range(100)) * 10, strict(epsilon=0.01))
    assert min(out) == 0
    assert max(out) == 100


def test_a_domain_of_one_point_publishes_that_point() -> None:
    point = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x", lower=7, upper=7)])
    assert published([7, 7, 8], strict(), point) == [7, 7, 7]
    assert published([7, 7, 8], paper(), point) == [7, 7, 7]


def test_a_sensitivity_of_zero_is_refused() -> None:
    with pytest.raises(PolicyError, match="sensitivity"):
        paper(sensitivity=0)


@pytest.mark.parametrize("mode", ["strict", "paper"])
def test_an_epsilon_of_zero_is_refused(mode: str) -> None:
    with pytest.raises(PolicyError, match="epsilon must be a number above 0"):
        cg.Doca(epsilon=0, delay=10, k=2 if mode == "strict" else None, mode=mode)  # type: ignore[arg-type]


def test_strict_rejects_no_row_for_its_values() -> None:
    stream = cg.Anonymiser(MIXED, strict())
    rows = [{"pid": n, "x": x, "job": "spy", "ward": None} for n, x in enumerate(["no number", None, 1e300, -5] * 5)]
    out = stream.push(rows)
    assert out.num_rows == 20
    assert set(out["job"].to_pylist()) <= {"cook", "clerk", "other"}
    assert set(out["ward"].to_pylist()) <= {"a", "b", None}
    assert stream.report().rejected == {}


def test_as_printed_a_row_that_cannot_be_read_is_rejected() -> None:
    stream = cg.Anonymiser(MIXED, paper())
    stream.push([{"pid": 1, "x": None, "job": "cook", "ward": "a"}, {"pid": 2, "x": 3, "job": "spy", "ward": "a"}])
    assert stream.report().rejected == {"x: null": 1, "job: unknown": 1}


def test_labels_are_as_frequent_as_their_counts() -> None:
    rows = [{"pid": n, "x": 1, "job": "cook" if n < 15 else "clerk", "ward": "b"} for n in range(20)]
    out = cg.anonymise(rows, MIXED, strict(delay=20, epsilon=SURE), seed=3)
    assert sorted(out["job"].to_pylist()) == ["clerk"] * 5 + ["cook"] * 15
    assert out["ward"].to_pylist() == ["b"] * 20


def test_columns_are_shuffled_independently_of_one_another_and_of_the_rows() -> None:
    """Equal ranks must not meet: that would reveal which values were in one row."""
    numbers = cg.Schema(person=None, quasi_identifiers=[cg.Numeric(n, lower=0, upper=999, step=1) for n in "xy"])
    table = pa.table({"x": np.arange(1000), "y": np.arange(1000)})
    out = cg.anonymise(table, numbers, strict(k=1, delay=1000, epsilon=1e9), seed=1)
    x, y = (out[name].to_numpy() for name in "xy")
    assert sorted(x) == sorted(y) == list(range(1000))
    for one, other in ((x, y), (x, np.arange(1000)), (y, np.arange(1000))):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.15


def test_as_printed_labels_and_public_columns_stay_with_their_rows() -> None:
    schema = cg.Schema(
        person=None,
        quasi_identifiers=MIXED.quasi_identifiers,
        sensitive=MIXED.sensitive,
        public=["row"],
    )
    rows = [{"x": n % 7, "job": ["cook", "clerk"][n % 2], "ward": "ab"[n % 2], "row": n} for n in range(200)]
    out = cg.anonymise(rows, schema, paper(epsilon=SURE), seed=1).to_pylist()
    assert sorted(row["row"] for row in out) == list(range(200))
    for row in out:
        assert row["job"] == ["cook", "clerk"][row["row"] % 2]
        assert row["ward"] == "ab"[row["row"] % 2]


def test_as_printed_a_row_released_by_its_own_push_keeps_its_label() -> None:
    """Also the first row of a push, whose ring slot still has the label of a row that left earlier."""
    schema = cg.Schema(person=None, quasi_identifiers=MIXED.quasi_identifiers, public=["row"])
    jobs = ["clerk", "other", "cook"]
    stream = cg.Anonymiser(schema, paper(epsilon=SURE, delay=3), seed=1)
    out = []
    for first in (0, 20, 41):
        rows = [{"x": n % 7, "job": jobs[n % 3], "row": n} for n in range(first, first + 21 - (first == 0))]
        out += stream.push(rows).to_pylist()
    out += stream.flush().to_pylist()
    assert [row["job"] for row in sorted(out, key=lambda row: row["row"])] == [jobs[n % 3] for n in range(62)]


def test_noise_covers_at_most_as_many_rows_of_a_person_as_fit_in_a_window() -> None:
    assert strict(rows_per_person=99, delay=4).contributions == 4
    assert paper(rows_per_person=99, delay=4).contributions == 5
    assert strict(rows_per_person=3, delay=4).contributions == 3


def test_as_printed_labels_are_randomised() -> None:
    rows = [{"pid": n, "x": 1, "job": "cook", "ward": "a"} for n in range(300)]
    out = cg.anonymise(rows, MIXED, paper(epsilon=1.0), seed=1)
    assert {"cook", "clerk", "other"} == set(out["job"].to_pylist())
    assert {"a", "b", None} == set(out["ward"].to_pylist())


@pytest.mark.parametrize(
    ("policy", "left_out"),
    [(strict(rows_per_person=2, delay=4), 3), (paper(rows_per_person=2, delay=4), 4), (strict(), 0), (paper(), 0)],
)
def test_a_person_has_at_most_rows_per_person_rows_in_a_window(policy: cg.Doca, left_out: int) -> None:
    """Strict windows are arrivals 0-3, 4-7 and 8; clusters hold arrivals that are at most `delay` apart."""
    stream = cg.Anonymiser(MIXED, policy)
    for person in (1, 1, 1, 2, 1, 1, 1, 1, 1):
        stream.push([{"pid": person, "x": 3, "job": "cook", "ward": "a"}])
    assert stream.report().over_budget == left_out


def test_a_flush_does_not_give_a_person_a_new_window() -> None:
    stream = cg.Anonymiser(MIXED, strict(rows_per_person=1, k=1))
    row = {"pid": 1, "x": 3, "job": "cook", "ward": "a"}
    assert stream.push([row]).num_rows + stream.flush().num_rows == 1
    stream.push([row])
    assert stream.report().over_budget == 1


@BOTH
def test_a_silent_stream_is_published_after_max_wait(policy: cg.Doca) -> None:
    policy = replace(policy, max_wait=60)
    stream = cg.Anonymiser(ONE, policy)
    assert stream.push([{"x": 1}, {"x": 2}], now=0.0).num_rows == 0
    assert stream.tick(59.0).num_rows == 0
    assert stream.tick(60.0).num_rows == 2
    with pytest.raises(UsageError, match="push\\(batch, now=seconds\\)"):
        cg.Anonymiser(ONE, policy).push([{"x": 1}])


@BOTH
def test_max_wait_counts_from_the_first_pending_row(policy: cg.Doca) -> None:
    stream = cg.Anonymiser(ONE, replace(policy, max_wait=60))
    stream.push([{"x": 1}, {"x": 2}], now=0.0)
    assert stream.push([{"x": 1}], now=50.0).num_rows == 0
    assert stream.tick(60.0).num_rows >= 2


@BOTH
def test_a_stream_is_restored_from_its_snapshot(policy: cg.Doca) -> None:
    values = np.random.default_rng(1).integers(0, 101, 500).tolist()
    whole = cg.Anonymiser(ONE, policy, seed=9)
    expected = [*whole.push(pa.table({"x": values}))["x"].to_pylist(), *whole.flush()["x"].to_pylist()]
    stream, out = cg.Anonymiser(ONE, policy, seed=9), []
    for at in range(0, 500, 37):
        out += stream.push(pa.table({"x": values[at : at + 37]}))["x"].to_pylist()
        stream = cg.Anonymiser.restore(ONE, policy, stream.snapshot())
    assert [*out, *stream.flush()["x"].to_pylist()] == expected
    mine, theirs = (replace(one.report(), information_loss=None) for one in (stream, whole))
    assert mine == theirs
    assert stream.report().information_loss == pytest.approx(whole.report().information_loss)


def test_a_snapshot_of_the_other_mode_is_refused() -> None:
    with pytest.raises(SnapshotError, match="another policy"):
        cg.Anonymiser.restore(ONE, paper(), cg.Anonymiser(ONE, strict()).snapshot())


@BOTH
def test_two_streams_draw_different_noise(policy: cg.Doca) -> None:
    table = pa.table({"x": list(range(20))})
    assert not cg.anonymise(table, ONE, policy).equals(cg.anonymise(table, ONE, policy))


def test_as_printed_the_key_of_past_noise_is_replaced() -> None:
    engine = DocaEngine(ONE, paper(), key=np.arange(8, dtype=np.uint32))
    arrays = engine.snapshot()
    arrays["counters"][[ARRIVALS, OLDEST]] = RATCHET - 5
    engine.restore(arrays)
    row = CodedRows(np.zeros((1, 1)), np.zeros(1, dtype=np.uint64), np.zeros((1, 0), dtype=np.int64), np.zeros(1, bool))
    keys = []
    for _ in range(10):
        engine.push(row, 0.0)
        keys.append(tuple(engine.snapshot()["words"][0, :8].tolist()))
    assert keys[:5] == [tuple(range(8))] * 5
    assert keys[5] == keys[9] != keys[4]


def test_doca_refuses_the_form_of_ranges() -> None:
    with pytest.raises(PolicyError, match="DOCA publishes numbers, not ranges"):
        cg.Anonymiser(ONE, strict(), numbers="interval")


@BOTH
def test_the_books_balance_and_the_delay_holds(policy: cg.Doca) -> None:
    stream = cg.Anonymiser(ONE, policy)
    for _ in range(57):
        stream.push([{"x": 5}])
        report = stream.report()  # refuses books that do not balance
        assert report.pending <= 10
        assert report.oldest_wait <= 10
    stream.flush()
    report = stream.report()
    assert (report.published, report.pending, report.gate_refused) == (57, 0, 0)
