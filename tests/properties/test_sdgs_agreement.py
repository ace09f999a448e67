"""The SDGS engine on random streams: agrees with its slow reference, in any batches, and loses no row."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from castleguard.algorithms.sdgs.engine import SdgsEngine
from castleguard.algorithms.sdgs.partition import Partition, Released, Rule, adapt
from castleguard.release.cell_gate import CellGate
from castleguard.schema.coded import CodedRows, Decisions
from castleguard.schema.roles import Categorical
from tests.properties.sdgs_streams import Front, Stream, call_twin, one_by_one, streams, twin_of, with_calls
from tests.properties.streams import examples
from tests.reference.sdgs_stream import Box, Node, boxes_of


def boxes(decisions: Decisions) -> list[Box]:
    """The published box of every row."""
    whole = [
        tuple(zip(*sides, strict=True))
        for sides in zip(decisions.lower.tolist(), decisions.upper.tolist(), strict=True)
    ]
    return [whole[group] for group in decisions.group]


def grid_boxes(grid: Partition) -> list[Box]:
    lower, upper = grid.bounds
    return [tuple(zip(*sides, strict=True)) for sides in zip(lower.tolist(), upper.tolist(), strict=True)]


def run(
    stream: Stream, engine: SdgsEngine | None = None
) -> tuple[list[int], list[Box], list[int], dict[str, list[object]]]:
    """Released rows in order, dropped rows, and the final state."""
    engine = engine or stream.engine()
    out = [stream.call(engine, call) for call in stream.calls]
    return (
        [position for part in out for position in part.position.tolist()],
        [box for part in out for box in boxes(part)],
        [position for part in out for position in part.dropped.tolist()],
        {name: array.tolist() for name, array in engine.snapshot().items()},
    )


@examples(4)
@given(streams())
def test_the_engine_agrees_with_its_reference(stream: Stream) -> None:
    engine, twin = stream.engine(), twin_of(stream)
    most = 0
    for call in stream.calls:
        before = len(twin.out), len(twin.dropped)
        decisions = stream.call(engine, call)
        call_twin(twin, stream, call)
        assert list(zip(decisions.position.tolist(), boxes(decisions), strict=True)) == twin.out[before[0] :]
        assert sorted(decisions.dropped.tolist()) == sorted(twin.dropped[before[1] :])
        assert grid_boxes(engine.grid) == [node["box"] for node in boxes_of(twin.grid)]
        for box, loss in zip(grid_boxes(engine.grid), engine.grid.losses.tolist(), strict=True):
            assert loss == twin.loss(box)
        most = max(most, engine.open_clusters)
    event(f"boxes {'1' if most == 1 else '2-7' if most < 8 else '8+'}")


@examples(2)
@given(streams())
def test_batches_do_not_matter(stream: Stream) -> None:
    single = with_calls(stream, one_by_one(stream.calls))
    whole = run(stream)
    assert run(single) == whole


@examples(2)
@given(streams(), st.integers(0, 10**6))
def test_a_restored_stream_decides_the_same(stream: Stream, cut: int) -> None:
    calls = one_by_one(stream.calls)
    cut %= len(calls)
    first, second = with_calls(stream, calls[:cut]), with_calls(stream, calls[cut:])
    engine = stream.engine()
    positions, published, dropped, _ = run(first, engine)
    again = stream.engine()
    again.restore(engine.snapshot())
    more = run(second, again)
    assert (positions + more[0], published + more[1], dropped + more[2], more[3]) == run(stream)


@examples(4)
@given(streams())
def test_every_released_cell_has_k_rows_every_box_l_values_and_no_row_is_lost(stream: Stream) -> None:
    engine, gate = stream.engine(), CellGate(stream.schema, stream.policy.criteria)
    decided: list[int] = []
    for call in stream.calls:
        decisions = stream.call(engine, call)
        codes = [tuple(row) for row in stream.rows.sensitive[decisions.position].tolist()]
        release = decisions.event[decisions.group].tolist()
        found = boxes(decisions)
        assert min(Counter(zip(release, found, codes, strict=True)).values(), default=99) >= stream.policy.k
        for column in range(len(stream.schema.sensitive)):
            values = {(when, box, code[column]) for when, box, code in zip(release, found, codes, strict=True)}
            assert min(Counter((when, box) for when, box, _ in values).values(), default=99) >= stream.policy.l
        assert gate.check(decisions, stream.rows.take(decisions.position)).all()
        decided += [*decisions.position.tolist(), *decisions.dropped.tolist()]
        waiting = sorted(set(np.flatnonzero(stream.present[: engine.arrivals]).tolist()) - set(decided))
        assert engine.pending == len(waiting)
        assert engine.oldest == (waiting[0] if waiting else engine.arrivals)
        if stream.policy.window_unit == "rows":
            assert engine.longest_wait < stream.policy.window
    assert sorted(decided) == np.flatnonzero(stream.present).tolist()


@examples(2)
@given(streams())
def test_the_grid_is_a_partition_of_the_domain_at_any_moment(stream: Stream) -> None:
    """Every combination of cells lies in one box, and that is the box where `locate` puts its values."""
    engine, twin = stream.engine(), twin_of(stream)
    axes = engine.grid.axes.axes
    lowest = [axis.bounds(np.arange(axis.cells), np.arange(axis.cells))[0].tolist() for axis in axes]
    points = list(product(*lowest))
    seen = None
    for call in stream.calls:
        stream.call(engine, call)
        grid = engine.grid
        assert grid.boxes.size <= stream.policy.max_cells
        if seen is grid:
            continue
        seen = grid
        found = grid.locate(np.array(points))
        published = grid_boxes(grid)
        inside = [sum(twin._contains(box, point) for box in published) for point in points]
        assert inside == [1] * len(points)
        assert all(twin._contains(published[box], point) for box, point in zip(found, points, strict=True))


@examples(4)
@given(streams(), st.integers(0, 2**32 - 1))
def test_the_grid_agrees_with_its_reference_for_any_releases(stream: Stream, seed: int) -> None:
    """Counts that no stream would give, so that all cases occur: splits that last, that fail, and that pause."""
    policy, twin = stream.policy, twin_of(stream)
    rule = Rule(k=policy.k, l=policy.l, survival=policy.survival, max_cells=policy.max_cells)
    grid = Partition.start(stream.engine().grid.axes, rule, cells=policy.start_cells)
    draw = np.random.default_rng(seed)
    happened = Counter[str]()
    for _ in range(40):
        assert grid_boxes(grid) == [node["box"] for node in boxes_of(twin.grid)]
        assert memory(grid) == twin_memory(twin.grid)
        busy = draw.choice([0.0, 0.3, 0.9])
        counts = [
            draw.integers(policy.k, 20 * policy.k, draw.integers(1, 4)).tolist() if draw.random() < busy else []
            for _ in range(grid.boxes.size)
        ]
        box = np.repeat(np.arange(len(counts)), [len(cells) for cells in counts])
        released = Released(box, np.array([count for cells in counts for count in cells], dtype=np.int64))
        after = adapt(grid, released, rule)
        twin._adapt(dict(zip(grid_boxes(grid), counts, strict=True)))
        change = int(np.sign(after.boxes.size - grid.boxes.size))
        happened[("same", "more boxes", "fewer boxes")[change]] += 1
        grid = after
    for what in happened:
        event(what)


@examples(2)
@given(streams(), st.integers(0, 2**32 - 1))
def test_the_next_grid_depends_on_what_was_released_and_on_nothing_else(stream: Stream, seed: int) -> None:
    """A second stream lacks the dropped rows, and has other values in the same cells, in another order."""
    policy = replace(stream.policy, window=10, window_unit="seconds")
    engine, other = SdgsEngine(stream.schema, policy), SdgsEngine(stream.schema, policy)
    draw = np.random.default_rng(seed)
    for window, start in enumerate(range(0, stream.rows.person.size, 80)):
        rows = stream.rows.take(slice(start, start + 80))
        engine.push(rows, 10.0 * window)
        decisions = engine.tick(10.0 * window + 10)
        kept = draw.permutation(decisions.position) - start
        moved = move_within(rows.take(kept), other, draw)
        other.push(moved, 10.0 * window)
        again = other.tick(10.0 * window + 10)
        assert boxes(again) == boxes(decisions)
        codes = moved.sensitive[again.position - (other.arrivals - kept.size)]
        assert codes.tolist() == rows.sensitive[decisions.position - start].tolist()
        assert other.grid.same_as(engine.grid)


@examples(2)
@given(streams())
def test_behind_the_cap_the_k_rows_of_a_cell_are_k_persons(stream: Stream) -> None:
    front = Front(stream.schema, stream.policy, stream.present)
    for call in stream.calls:
        if call.kind == "push":
            front.push(stream.rows.take(slice(call.start, call.stop)), call.now)
    front.tick(stream.calls[-1].now + stream.policy.window + 1.0)
    front.flush()
    persons: dict[object, set[int]] = {}
    for row, (release, person) in zip(front.out, front.persons, strict=True):
        persons.setdefault((release, row), set()).add(person)
    rows = Counter((release, row) for row, (release, _) in zip(front.out, front.persons, strict=True))
    assert all(len(persons[cell]) == many >= stream.policy.k for cell, many in rows.items())


def move_within(rows: CodedRows, engine: SdgsEngine, draw: np.random.Generator) -> CodedRows:
    """Other values in the same boxes of the engine's grid."""
    low, high = (bounds[engine.grid.locate(rows.quasi)] for bounds in engine.grid.bounds)
    quasi = low + (rows.quasi - low) * draw.random(rows.quasi.shape)
    for at, axis in enumerate(engine.grid.axes.axes):
        if isinstance(axis.role, Categorical):
            quasi[:, at] = draw.integers(low[:, at].astype(np.int64), high[:, at].astype(np.int64) + 1)
    return rows._replace(quasi=quasi)


def memory(grid: Partition) -> list[tuple[object, ...]]:
    """State of every node, in preorder."""
    nodes = grid.nodes
    return list(zip(*(part.tolist() for part in (nodes.enough, nodes.quiet, nodes.age, nodes.rest)), strict=True))


def twin_memory(node: Node) -> list[tuple[object, ...]]:
    below = [each for child in node["children"] for each in twin_memory(child)]
    return [(node["enough"], node["quiet"], node["age"], node["rest"]), *below]
