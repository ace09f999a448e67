"""All methods on the same rows: each is run and measured, or gives a reason why it cannot run."""

import json

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.errors import UsageError
from castleguard.lab.baselines.coded_boxes import read
from castleguard.lab.baselines.methods import METHODS
from castleguard.lab.baselines.naive import laplace_error
from castleguard.lab.harness import LINK, Method, Options, Outcome, Task, make_task
from castleguard.lab.side_by_side import Compared, choose, compare
from castleguard.lab.transcriptions.dcastle.network import PaperNetwork
from castleguard.lab.transcriptions.dcastle.paper_policy import PaperPolicy

PLANE = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("x", lower=0, upper=100, step=5), cg.Numeric("y", lower=0, upper=10, step=1)],
    sensitive=["illness"],
)
SEX = cg.Schema(person=None, quasi_identifiers=[cg.Categorical("sex", hierarchy=cg.Hierarchy.flat(["f", "m"]))])


def _task(rows: int = 400, **more: object) -> Task:
    draw = np.random.default_rng(5)
    table = pa.table(
        {
            "pid": np.arange(rows),
            "x": draw.integers(0, 101, rows),
            "y": draw.random(rows) * 10,
            "illness": [f"i{number}" for number in draw.integers(0, 6, rows)],
        }
    )
    return make_task(table, PLANE, k=4, l=2, delay=60, options=Options(sites=3, **more))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def all_compared() -> dict[str, Compared]:
    return {found.method.key: found for found in compare(_task())}


@pytest.mark.compiled
def test_methods_that_promise_persons_values_and_delay_keep_them(all_compared: dict[str, Compared]) -> None:
    for key in ("citadel", "citadel-narrow", "castle", "castle-paper", "sites-alone", "fads", "mondrian"):
        measured = all_compared[key].measured
        assert measured is not None
        assert measured.broken == {}, key
        assert measured.published + measured.suppressed == measured.rows == 400
        assert measured.loss is not None
        assert 0 < measured.loss < 1


@pytest.mark.compiled
def test_citadel_loses_less_than_castle_and_promises_more() -> None:
    task = make_task(_task(rows=2000).table.drop_columns([LINK]), PLANE, k=4, delay=200)
    ours, narrow, castle = compare(task, choose(["citadel", "citadel-narrow", "castle"]))
    measured = [found.measured for found in (narrow, ours, castle)]
    losses = [each.loss for each in measured if each is not None and each.loss is not None]
    assert len(set(losses)) == 3
    assert losses == sorted(losses)
    assert "in each release" in ours.method.promise
    assert "in each release" not in narrow.method.promise


@pytest.mark.compiled
def test_condensation_keeps_k_and_neither_the_delay_nor_l(all_compared: dict[str, Compared]) -> None:
    measured = all_compared["dynamic-group"].measured
    assert measured is not None
    # All rows leave at the end: those more than 60 rows before it are late.
    assert measured.late == 400 - 61
    assert measured.below_k == measured.suppressed == measured.outside == 0


@pytest.mark.compiled
def test_separate_sites_lose_more_than_one_site_with_all_rows(all_compared: dict[str, Compared]) -> None:
    alone, together = all_compared["sites-alone"].measured, all_compared["castle"].measured
    assert alone is not None
    assert together is not None
    assert alone.loss is not None
    assert together.loss is not None
    assert alone.loss > together.loss


@pytest.mark.compiled
def test_measures_of_printed_dcastle_agree_with_its_own_counts(all_compared: dict[str, Compared]) -> None:
    task = _task()
    policy = PaperPolicy(k=task.k, l=task.l, delay=task.delay // task.sites, sites=task.sites)
    run = PaperNetwork(task.schema, policy, seed=task.seed).run_round_robin(task.table)
    measured = all_compared["dcastle-paper"].measured
    assert measured is not None
    assert (measured.published, measured.suppressed) == (run.published, run.suppressed)
    assert (measured.groups, measured.below_k, measured.below_l) == (run.groups, run.groups_below_k, run.groups_below_l)
    assert measured.loss == pytest.approx(run.information_loss)
    assert measured.below_k
    assert measured.outside == measured.late == 0
    assert measured.other == {}
    assert measured.notes == (f"3 sites sent {run.messages:,} messages of {run.bytes:,} bytes together",)


@pytest.mark.compiled
def test_figures_are_json(all_compared: dict[str, Compared]) -> None:
    figures = [found.figures() for found in all_compared.values()]
    read_back = json.loads(json.dumps(figures, allow_nan=False))
    assert [entry["method"] for entry in read_back] == [method.key for method in METHODS]
    assert read_back[0]["broken"] == {}
    assert read_back[-1]["loss"] is None


def test_bounds_on_the_grid_lose_more() -> None:
    fine, coarse = (next(compare(_task(on_grid=on), choose(["mondrian"]))).measured for on in (False, True))
    assert fine is not None
    assert coarse is not None
    assert fine.loss is not None
    assert coarse.loss is not None
    assert fine.loss < coarse.loss
    assert coarse.broken == {}


def test_the_same_seed_gives_the_same_figures() -> None:
    first, second = (next(compare(_task(seed=7), choose(["dynamic-group"]))).figures() for _ in range(2))
    assert {**first, "seconds": 0, "rows_per_second": 0} == {**second, "seconds": 0, "rows_per_second": 0}


def test_method_that_cannot_handle_the_schema_gives_the_reason() -> None:
    task = make_task(pa.table({"sex": ["f", "m", "f", "m"]}), SEX, k=2, delay=3)
    found = {one.method.key: one for one in compare(task, choose(["mondrian", "dynamic-group", "laplace"]))}
    assert found["mondrian"].measured is not None
    assert found["dynamic-group"].measured is None
    assert found["dynamic-group"].refused == "condensation groups numbers only, and column 'sex' holds categories"
    assert found["laplace"].figures()["refused"] == "Laplace noise is for numbers, and column 'sex' holds categories"


def test_sites_with_too_few_rows_in_a_delay_are_refused() -> None:
    task = make_task(pa.table({"sex": ["f", "m"]}), SEX, k=5, delay=10, options=Options(sites=4))
    found = next(compare(task, choose(["sites-alone"])))
    assert found.refused == "one of 4 sites sees 2 rows in a delay of 10: too few for k = 5"


def test_a_site_without_any_row_publishes_nothing() -> None:
    task = make_task(pa.table({"sex": ["f"]}), SEX, k=2, delay=10, options=Options(sites=3))
    measured = next(compare(task, choose(["sites-alone"]))).measured
    assert measured is not None
    assert (measured.published, measured.suppressed, measured.loss) == (0, 1, 1.0)


def test_condensation_can_group_rows_of_one_person() -> None:
    # Two rows of each person at the same place, and k = 2.
    schema = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("x", lower=0, upper=10)])
    task = make_task(pa.table({"pid": [1, 1, 2, 2], "x": [0, 0, 9, 9]}), schema, k=2, delay=3)
    condensed, cut = (next(compare(task, choose([key]))).measured for key in ("dynamic-group", "mondrian"))
    assert condensed is not None
    assert cut is not None
    assert condensed.broken == {"groups below k persons": 2}
    assert cut.broken == {}


def test_row_for_the_root_is_not_published_by_methods_without_a_root() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x", lower=0, upper=10, null="root")])
    task = make_task(pa.table({"x": [1, 2, None, 3, 4]}), schema, k=2, delay=4)
    for found in compare(task, choose(["fads", "mondrian", "dynamic-group"])):
        assert found.measured is not None
        assert (found.measured.published, found.measured.suppressed) == (4, 1)
        assert found.measured.broken == {}


def test_bug_in_a_method_is_not_reported_as_a_refusal() -> None:
    def fail(task: Task) -> Outcome:
        raise ZeroDivisionError

    broken = Method(key="broken", title="broken", promise="nothing", publish=fail)
    with pytest.raises(ZeroDivisionError):
        list(compare(_task(rows=4), [broken]))


def test_methods_are_chosen_by_name_in_the_order_of_the_table() -> None:
    assert [method.key for method in choose(["mondrian", "castle"])] == ["castle", "mondrian"]
    assert choose() == METHODS
    with pytest.raises(UsageError, match="there is no method 'mondrain'; there are citadel, citadel-narrow, castle"):
        choose(["mondrain"])


def _middle(rows: int) -> pa.Table:
    return pa.table({"pid": np.arange(rows), "x": [50] * rows, "y": [5.0] * rows, "illness": ["a"] * rows})


def test_the_error_of_noise_is_its_scale() -> None:
    # Two columns share epsilon 100: noise of scale 1/50 of the domain, whose mean distance from 0 is its scale.
    coded = read(_middle(1500), PLANE)
    assert laplace_error(coded, epsilon=100, seed=1) == pytest.approx(0.02, rel=0.05)


def test_infinite_noise_leaves_one_of_the_bounds() -> None:
    # Every value becomes the one bound or the other: half of the domain away from the middle.
    assert laplace_error(read(_middle(100), PLANE), epsilon=1e-9) == pytest.approx(0.5)


def test_without_rows_there_is_no_error() -> None:
    assert np.isnan(laplace_error(read(_middle(0), PLANE), epsilon=1))
