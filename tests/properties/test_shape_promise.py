"""The criteria on distributions as a black box: rows are pushed one by one, and every release is judged.

Uses public names only to publish. The judge works from the raw rows and the definitions in tests/reference.
"""

from dataclasses import dataclass, field, replace
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import castleguard as cg
from castleguard.algorithms.castle import policy as policies
from tests.properties.streams import examples, shapes
from tests.properties.tables import Books, Box, Stream, streams
from tests.properties.transcription import shape_of, tree_of
from tests.reference.measure import Row, Tree
from tests.reference.shape import Shape

ROUNDING = 1e-7  # tolerance of the judge
SECRETS = [0, 7, 14]  # values of sensitive columns, besides missing ones
TREE = cg.Hierarchy.from_mapping({"*": {"low": SECRETS[:2], "high": SECRETS[2:]}})


@st.composite
def shaped_streams(draw: st.DrawFn, mode: str = "strict") -> Stream:
    """Any stream without a clock whose policy has a criterion on distributions."""
    stream = draw(streams(mode=mode, timed=False, secretive=True))  # type: ignore[arg-type]
    roles = [cg.Sensitive("s0", hierarchy=TREE), cg.Sensitive("s1", bins=[10, 20])][: len(stream.schema.sensitive)]
    promised = draw(shapes(cg.Schema(person=None, quasi_identifiers=QI, sensitive=roles), stream.policy.k))
    if "closeness" in promised and promised["closeness"].distance == "hierarchical":
        roles = roles[:1]
    schema = cg.Schema(
        person=stream.schema.person,
        quasi_identifiers=stream.schema.quasi_identifiers,
        sensitive=roles,
        public=stream.schema.public,
    )
    order = None if stream.policy.order == "input" else stream.policy.order
    policy = replace(stream.policy, order=order, **promised)
    rows = tuple(replace(row, sensitive=row.sensitive[: len(roles)]) for row in stream.rows)
    return replace(stream, schema=schema, policy=policy, rows=rows, numbers="bounds")


QI = [cg.Numeric("q", lower=0, upper=1)]


@dataclass
class Release:
    """Rows published together under one box."""

    rows: list[Row]
    stood_alone: bool


@dataclass
class Judge:
    """Records arrivals, and the rows published under each box at each moment."""

    stream: Stream
    history: list[Row] = field(default_factory=list)
    releases: dict[Box, list[Release]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shape = shape_from(self.stream)
        self.books = Books(self.stream)

    def arrive(self, number: int) -> None:
        if self.stream.rows[number].fate != "reject":
            self.history.append(self.coded(number))

    def coded(self, number: int) -> Row:
        """The row with values as indices in their public order; the last is for a missing one."""
        row = self.stream.rows[number]
        first = (*SECRETS, -1).index(row.sensitive[0])
        return Row(number, row.person, (), (first, *(3 if code == -1 else code for code in row.sensitive[1:])))

    def enter(self, out: pa.Table) -> list[Box]:
        """Boxes under which rows were published."""
        before = {box: len(group.rows) for box, group in self.books.groups.items()}
        self.books.enter(out)
        fresh = {box: group.rows[before.get(box, 0) :] for box, group in self.books.groups.items()}
        boxes = [box for box, rows in fresh.items() if rows]
        for box in boxes:
            rows = [self.coded(number) for number in fresh[box]]
            self.releases.setdefault(box, []).append(Release(rows, self.passes(rows)))
        return boxes

    def passes(self, rows: list[Row]) -> bool:
        shape = self.shape
        if len(self.history) < shape.burn_in:
            return False
        columns = range(len(shape.sizes))
        shares = [shape.shares(self.history, i) for i in columns]
        return all(shape.lack(shape.pairs(rows, i), i, shares[i]) < ROUNDING for i in columns)

    def keeps_all(self, box: Box) -> bool:
        """Whether all rows ever published under the box pass as one group."""
        return self.passes([row for release in self.releases[box] for row in release.rows])

    def keeps_latest(self, box: Box) -> bool:
        """Whether the latest releases pass, from one that passed alone on: earlier ones may have been forgotten."""
        releases = self.releases[box]
        return any(
            release.stood_alone and self.passes([row for later in releases[at:] for row in later.rows])
            for at, release in enumerate(releases)
        )


def shape_from(stream: Stream) -> Shape:
    """The criteria in the form of the definitions. Only the first column needs a tree."""
    one_column = cg.Schema(person=None, quasi_identifiers=QI, sensitive=stream.schema.sensitive[:1])
    shape = shape_of(one_column, stream.policy)
    assert shape is not None
    columns = len(stream.schema.sensitive)
    public = stream.policy.closeness.public if stream.policy.closeness is not None else None
    shares = [list(given.values()) for given in (public or {}).values()]
    trees: list[Tree] = [tree_of(TREE)] * columns
    return replace(shape, sizes=[4] * columns, trees=trees, public=shares)


def push_all(stream: Stream, judge: Judge, anonymiser: cg.Anonymiser) -> None:
    """Push rows one by one, so that the judge sees every release.

    A flush is many releases at once; for boxes that are not remembered, each release only passes by itself.
    """
    for number in range(len(stream.rows)):
        judge.arrive(number)
        boxes = judge.enter(anonymiser.push(stream.table.slice(number, 1)))
        assert not judge.books.uncovered()
        assert all(judge.keeps_latest(box) for box in boxes)
    judge.enter(anonymiser.flush())
    assert not judge.books.uncovered()


@examples(6)
@given(shaped_streams())
def test_every_release_keeps_the_distribution_at_its_moment(stream: Stream) -> None:
    """A new group passes alone, joining rows pass with the remembered pairs of their box, and k and l always hold."""
    anonymiser = stream.start()
    push_all(stream, Judge(stream), anonymiser)
    assert anonymiser.report().gate_refused == 0


@examples(4)
@given(shaped_streams())
def test_if_every_box_is_remembered_all_rows_published_under_it_meet_the_criterion(stream: Stream) -> None:
    """A loss window of one admits every box."""
    remembering = replace(stream.policy, loss_window=1, max_reusable=1000, reuse="paper")
    stream = replace(stream, policy=remembering)
    anonymiser, judge = stream.start(), Judge(stream)
    for number in range(len(stream.rows)):
        judge.arrive(number)
        assert all(judge.keeps_all(box) for box in judge.enter(anonymiser.push(stream.table.slice(number, 1))))
    assert all(judge.keeps_all(box) for box in judge.enter(anonymiser.flush()))
    assert anonymiser.report().gate_refused == 0


@examples(3)
@given(shaped_streams(), st.integers(0, 8))
def test_forgetting_costs_rows_but_not_the_promise(stream: Stream, pairs: int) -> None:
    """Engine and gate forget at the same moments, so the gate refuses nothing."""
    with patch.object(policies, "_PAIRS_PER_BOX", pairs):
        anonymiser = stream.start()
        push_all(stream, Judge(stream), anonymiser)
        assert anonymiser.report().gate_refused == 0


@examples(3)
@given(shaped_streams(mode="paper"))
def test_the_gate_keeps_distributions_in_paper_mode_too(stream: Stream) -> None:
    push_all(stream, Judge(stream), stream.start())


@examples(2)
@given(shaped_streams(), st.integers(0, 90), st.integers(1, 30))
def test_batches_and_snapshots_change_nothing(stream: Stream, cut: int, batch: int) -> None:
    whole = stream.start()
    expected = pa.concat_tables([whole.push(stream.table), whole.flush()])
    anonymiser = stream.start()
    out = []
    for at in range(0, len(stream.rows), batch):
        out.append(anonymiser.push(stream.table.slice(at, batch)))
        if at <= cut < at + batch:
            blob = anonymiser.snapshot()
            anonymiser.flush()  # a snapshot is a copy
            anonymiser = cg.Anonymiser.restore(stream.schema, stream.policy, blob)
    out.append(anonymiser.flush())
    actual = pa.concat_tables([table.cast(expected.schema) for table in out])
    assert actual.to_pylist() == expected.to_pylist()
    # The mean is summed batch by batch, with its rounding.
    one, other = (replace(report, information_loss=None) for report in (anonymiser.report(), whole.report()))
    assert one == other
