"""The promise of strict mode as a black box: rows are pushed one by one, and after each the whole output is judged.

Uses public names only. The judge knows the meaning of every raw value because it drew it (tables.py), and shares no
code with decoder, engine or gate.
"""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import castleguard as cg
from tests.properties.streams import examples
from tests.properties.tables import Books, Stream, streams


def push(anonymiser: cg.Anonymiser, stream: Stream, row: int) -> pa.Table:
    """Push one row at its time."""
    now = stream.times[row] if stream.policy.max_wait is not None else None
    return anonymiser.push(stream.table.slice(row, 1), now=now)


def judged(stream: Stream) -> cg.Anonymiser:
    """Push all rows and flush; the whole output is judged after every arrival, in input order only at the end.

    In input order the rows of a group are published one by one.
    """
    anonymiser, books = stream.start(), Books(stream)
    trickles = stream.policy.order == "input"
    for row in range(len(stream.rows)):
        books.enter(push(anonymiser, stream, row))
        assert trickles or not books.uncovered()
    books.enter(anonymiser.flush())
    assert not books.uncovered()
    return anonymiser


@examples(4)
@given(streams())
def test_every_group_is_covered_at_every_moment(stream: Stream) -> None:
    """k persons, l values, every row in its box, public boxes, no row twice: after every arrival."""
    assert judged(stream).report().gate_refused == 0


@examples(1)
@given(streams(lopsided=True))
def test_no_person_counts_for_two_values(stream: Stream) -> None:
    """l per person, where one person has nearly all of the rare values."""
    assert judged(stream).report().gate_refused == 0


@examples(2)
@given(streams(mode="paper"))
def test_the_gate_keeps_the_promise_in_paper_mode_too(stream: Stream) -> None:
    """The engine then decides as printed and may break the promise; the gate suppresses those groups."""
    judged(stream)


@examples(2)
@given(streams(timed=False))
def test_no_row_leaves_after_more_than_delay_arrivals(stream: Stream) -> None:
    anonymiser, books = stream.start(), Books(stream)
    position: dict[int, int] = {}
    waits = [0]
    for row in range(len(stream.rows)):
        if stream.rows[row].fate != "reject":
            position[row] = len(position)
        waits += [len(position) - 1 - position[out] for out in books.enter(push(anonymiser, stream, row))]
        report = anonymiser.report()
        assert report.pending <= stream.policy.delay
        assert max(waits) <= report.oldest_wait <= stream.policy.delay
    assert max(waits) <= stream.policy.delay


@examples(2)
@given(streams(timed=True), st.binary(max_size=20))
def test_no_row_waits_longer_than_max_wait_when_the_clock_ticks(stream: Stream, ticks: bytes) -> None:
    """After a push or tick at `now`, all rows that arrived `max_wait` earlier are published or suppressed."""
    anonymiser, books = stream.start(), Books(stream)
    limit = stream.policy.max_wait
    assert limit is not None
    waiting: dict[int, float] = {}
    schedule = [(time, row) for row, time in enumerate(stream.times)]
    schedule += [(float(byte % 64), -1) for byte in ticks]
    for now, row in sorted(schedule):
        overdue = {out for out, arrived in waiting.items() if arrived + limit <= now}
        if row >= 0 and stream.rows[row].fate != "reject":
            waiting[row] = now
        out = push(anonymiser, stream, row) if row >= 0 else anonymiser.tick(now)
        for left in books.enter(out):
            assert left in waiting, "published after its time"
            del waiting[left]
        for late in overdue - books.published:  # suppressed, so it must never be published
            del waiting[late]
        assert anonymiser.report().pending <= len(waiting)


@examples(1)
@given(streams())
def test_a_new_box_is_no_wider_than_its_rows(stream: Stream) -> None:
    """Clusters shrink when a row leaves otherwise: a bound set by that row would reveal its value.

    Without a clock one arrival is one release, so the first rows published under a box are those it was built from.
    """
    if stream.policy.max_wait is not None or stream.policy.order == "input" or stream.numbers != "bounds":
        return
    anonymiser, books = stream.start(), Books(stream)
    root = tuple(
        bound
        for role in stream.schema.quasi_identifiers
        for bound in (role.domain if isinstance(role, cg.Numeric) and role.domain else ("root",))
    )
    for row in range(len(stream.rows)):
        known = set(books.groups)
        books.enter(push(anonymiser, stream, row))
        for box in set(books.groups) - known:
            members = [stream.rows[member] for member in books.groups[box].rows]
            if any(member.fate == "root" for member in members) or anonymiser.report().at_root:
                continue
            assert len(box) == len(root)
            at = 0
            for column, role in enumerate(stream.schema.quasi_identifiers):
                if isinstance(role, cg.Categorical):
                    leaves = [role.hierarchy.leaves.index(str(member.quasi[column])) for member in members]
                    node = role.hierarchy.node(min(leaves), max(leaves))
                    assert box[at] == role.hierarchy.labels[node]
                    at += 1
                    continue
                values = [float(member.quasi[column]) for member in members]
                if role.kind == "number":
                    starts = role.edges[:-1] if role.edges.size > 1 else role.edges
                    assert box[at] == max(edge for edge in starts if edge <= min(values))
                    above = [edge for edge in role.edges if edge > max(values)]
                    assert box[at + 1] == min(above, default=role.edges[-1])
                at += 2


@examples(1)
@given(streams())
def test_the_books_balance_at_every_moment(stream: Stream) -> None:
    """Rows in = published + suppressed + rejected + pending; after the flush nothing is pending."""
    anonymiser, books = stream.start(), Books(stream)
    refused = 0
    for row in range(len(stream.rows)):
        books.enter(push(anonymiser, stream, row))
        refused += stream.rows[row].fate == "reject"
        report = anonymiser.report()  # refuses books that do not balance
        assert report.rows_in == row + 1
        assert report.published == len(books.published)
        assert sum(report.rejected.values()) == refused
    books.enter(anonymiser.flush())
    report = anonymiser.report()
    assert report.pending == 0
    assert report.published == len(books.published)
    assert report.published + report.suppressed + refused == len(stream.rows)
    assert report.open_clusters == 0


@examples(1)
@given(streams(), streams())
def test_a_stream_goes_on_after_a_flush(stream: Stream, other: Stream) -> None:
    """The promise holds after a flush: groups and the root stay as they were."""
    anonymiser, books = stream.start(), Books(stream)
    cut = len(other.rows) % (len(stream.rows) + 1)
    for row in range(len(stream.rows)):
        books.enter(push(anonymiser, stream, row))
        if row == cut:
            books.enter(anonymiser.flush())
            assert anonymiser.report().pending == 0
            assert not books.uncovered()
    books.enter(anonymiser.flush())
    assert not books.uncovered()
