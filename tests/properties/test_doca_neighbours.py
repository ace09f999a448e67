"""DOCA's claim, checked step by step: the effect of one person's values in strict mode, and what paper mode reveals.

Strict mode: a stand-in replaces the noise. It records the sums and counts that the engine passes, and returns numbers
chosen by the test. So three facts are checked without chance: these numbers move by no more than the noise is
calibrated for; the output depends only on the noisy numbers and public facts; and the distribution of the output, by
the closed form of the noise, keeps epsilon for all neighbours of a small domain.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import castleguard as cg
from castleguard.algorithms.doca import noisy_columns
from castleguard.algorithms.doca.window_engine import WindowEngine, WindowKeys
from castleguard.kernels.compile import COMPILED
from castleguard.privacy.mechanisms import DiscreteLaplace
from castleguard.privacy.noise import Noise
from castleguard.schema.coded import CodedRows, join_decisions
from castleguard.schema.roles import QuasiIdentifier
from castleguard.stream import Anonymiser
from tests.properties.doca_stand_in import COUNTS, SUMS, Heard, Numbers, as_they_are, listening, of_its_own, stand_in

Row = dict[str, object]


def test_the_stand_in_replaces_all_noise() -> None:
    """The same stream with real noise publishes other values: the engine has no other access to noise."""
    schema, policy = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x", lower=0, upper=99, step=1)]), DECIDED
    stream, heard = listening(schema, policy)
    rows = [{"x": at} for at in range(100)]
    exact = [4.5 + 10 * (at // 10) for at in range(100)]
    assert sorted(stream.push(rows)["x"].to_pylist()) == exact
    assert [number for number, _ in heard.calls] == [SUMS]
    assert sorted(Anonymiser(schema, policy, seed=1).push(rows)["x"].to_pylist()) != exact


DECIDED = cg.Doca(epsilon=1.0, delay=100, k=10)

# -- streams -----------------------------------------------------------------------------------------------------------

TREE = cg.Hierarchy.from_mapping({"any": {"left": ["a", "b"], "right": {"c": None, "deep": ["d"]}}})
DAY, MOMENT = dt.date(2020, 1, 31), dt.datetime(2020, 3, 1, 12, tzinfo=dt.UTC)
ODD = (None, "", "rubbish", float("nan"), float("inf"), -1e300, 1e300, "1e999", "  7 ", True, 2**80, b"\xff", "02-30")


@dataclass(frozen=True)
class Pool:
    """A column and its possible values: the two ends, which are farthest apart, and others."""

    role: QuasiIdentifier | cg.Sensitive
    ends: tuple[object, object]
    others: tuple[object, ...]

    def value(self, random: np.random.Generator) -> object:
        chosen = (*self.ends, *self.others, *ODD)[random.integers(2 + len(self.others) + len(ODD))]
        return chosen if random.random() < 0.4 else self.others[random.integers(len(self.others))]


NUMBERS = (
    Pool(cg.Numeric("n0", lower=0, upper=7, step=1), (-5, "9.5"), (0, 1, 2.5, "3", 4.499999, 7)),
    Pool(cg.Numeric("n1", lower=-2.5, upper=2.5, step=0.7), (-2.5, 1e9), (-2.0, "0.1", 0.3, 2.4, 2.5)),
    Pool(cg.Numeric("n2", lower=0.1, upper=0.9, step=0.1), (0.1, 0.9), (0.15, 0.25, "0.35", 0.45, 0.55, 0.7)),
    Pool(cg.Numeric("n3", lower=5, upper=5), (5, 6), (4, "5", 7)),
    Pool(
        cg.Numeric("n4", lower=DAY, upper=dt.date(2020, 12, 31), step=7, default=dt.date(2020, 5, 1)),
        (DAY, dt.date(2021, 1, 1)),
        (dt.date(2020, 3, 3), "2020-07-07", dt.datetime(2020, 9, 9, 23)),
    ),
    Pool(
        cg.Numeric("n5", lower=MOMENT, upper=MOMENT + dt.timedelta(hours=3), step=600),
        (MOMENT, MOMENT + dt.timedelta(days=3)),
        (MOMENT + dt.timedelta(seconds=77), "2020-03-01T13:10:00Z", MOMENT + dt.timedelta(hours=2)),
    ),
    Pool(cg.Numeric("n6", lower=10**12, upper=10**12 + 10**6, step=1), (0, 10**13), (10**12 + 5, 10**12 + 999_999.5)),
)
LABELS = (
    Pool(cg.Categorical("c0", hierarchy=TREE, default="c"), ("a", "d"), ("b", "c")),
    Pool(cg.Categorical("c1", hierarchy=cg.Hierarchy.flat(["only"])), ("only", "x"), ("only",)),
)
SENSITIVE = (
    Pool(cg.Sensitive("s0", values=["flu", "cold", "none"]), ("flu", "none"), ("cold", "gout")),
    Pool(cg.Sensitive("s1", bins=[10, 20.5]), (3, 30), (10, "15", 20.5)),
    Pool(cg.Sensitive("s2", values=[1, 2]), (1, 2), ("1", 3)),
)


@dataclass(frozen=True)
class Case:
    """A schema, a policy and rows of windows: in each of them one person's values differ between the two streams."""

    pools: list[Pool]
    schema: cg.Schema
    policy: cg.Doca
    windows: list[tuple[list[Row], list[Row]]]


def make_case(random: np.random.Generator, windows: int) -> Case:
    pools = [*pick(random, NUMBERS, 3), *pick(random, LABELS, 2), *pick(random, SENSITIVE, 2)]
    if all(isinstance(pool.role, cg.Sensitive) for pool in pools):
        pools.insert(0, NUMBERS[0])
    schema = cg.Schema(
        person="p",
        quasi_identifiers=[pool.role for pool in pools if not isinstance(pool.role, cg.Sensitive)],
        sensitive=[pool.role for pool in pools if isinstance(pool.role, cg.Sensitive)],
    )
    k = int(random.integers(1, 5))
    names = [pool.role.name for pool in pools]
    policy = cg.Doca(
        epsilon=float(random.choice([0.1, 1.0, 3.0])),
        delay=int(random.integers(k, 5 * k + 3)),
        k=k,
        rows_per_person=int(random.integers(1, 4)),
        weights={names[0]: float(random.choice([0.3, 7]))} if random.random() < 0.5 else None,
        max_wait=10.0,
    )
    return Case(pools, schema, policy, [neighbours(random, pools, policy.delay) for _ in range(windows)])


def pick(random: np.random.Generator, pools: Sequence[Pool], most: int) -> list[Pool]:
    chosen = random.permutation(len(pools))[: random.integers(most + 1)]
    return [pools[at] for at in sorted(chosen)]


def neighbours(random: np.random.Generator, pools: Sequence[Pool], size: int) -> tuple[list[Row], list[Row]]:
    """A window of rows, and the same with other values of person 0, often the farthest ones."""
    persons = random.integers(0, random.choice([1, 3, 20]), size)
    one: list[Row] = [{pool.role.name: pool.value(random) for pool in pools} | {"p": int(who)} for who in persons]
    far = random.random() < 0.4
    replaced = [{pool.role.name: pool.ends[1] if far else pool.value(random) for pool in pools} for _ in persons]
    if far:
        one = [row | ({pool.role.name: pool.ends[0] for pool in pools} if row["p"] == 0 else {}) for row in one]
    other = [row | (new if row["p"] == 0 else {}) for row, new in zip(one, replaced, strict=True)]
    return one, other


@dataclass(frozen=True)
class Call:
    """Outcome of the calls of one window."""

    tables: list[pa.Table]
    told: list[tuple[int, Numbers]]


def feed(stream: Anonymiser, heard: Heard, windows: Iterable[list[Row]], cuts: int) -> list[Call]:
    """Push windows in pieces, with flushes and ticks between, none of which depends on values."""
    random, now, calls = np.random.default_rng(cuts), 0.0, []
    for window in windows:
        tables, at, before = [], 0, len(heard.calls)
        while at < len(window):
            size = int(random.choice([len(window)] * 8 + [0, 1, 5]))
            tables.append(stream.push(window[at : at + size], now=now))
            at += size
            chance = random.random()
            if chance < 0.15:
                tables.append(stream.flush())
            elif chance < 0.3:
                now += float(random.choice([4.0, 11.0]))
                tables.append(stream.tick(now))
        calls.append(Call(tables, heard.calls[before:]))
    return calls


def loss_of(heard: Heard, one: Call, other: Call) -> tuple[Fraction, dict[tuple[int, int], int]]:
    """Loss over all columns: the change of the numbers times the exponent per unit."""
    moved: dict[tuple[int, int], int] = defaultdict(int)
    for (number, before), (same, after) in zip(one.told, other.told, strict=True):
        assert number == same
        assert before.shape == after.shape
        for column, change in enumerate(np.abs(before - after).sum(axis=0)):
            moved[number, column] += int(change)
    decays = {at: heard.mechanisms[at[0]][at[1]] for at in moved}
    return sum((moved[at] * m.epsilon / max(m.cells, 1) for at, m in decays.items()), Fraction(0)), moved


def public_report(stream: Anonymiser) -> dict[str, object]:
    """The books without the mean spread of the runs, which depends on values by declaration."""
    return {name: value for name, value in asdict(stream.report()).items() if name != "information_loss"}


# -- strict mode: sensitivity ------------------------------------------------------------------------------------------

STREAMS, WINDOWS = (25, 20) if COMPILED else (25, 12)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[Case, Heard, list[Call], list[Call]]]:
    """Neighbouring streams: in each window the values of one person differ, so each window is a pair."""
    found = []
    for number in range(STREAMS):
        case = make_case(np.random.default_rng(number), WINDOWS)
        books, calls = [], []
        for side in (0, 1):
            stream, heard = listening(case.schema, case.policy)
            calls.append(feed(stream, heard, (window[side] for window in case.windows), cuts=number))
            books.append(public_report(stream))
        assert books[0] == books[1]
        found.append((case, heard, calls[0], calls[1]))
    return found


Pairs = list[tuple[Case, Heard, list[Call], list[Call]]]


def test_sums_and_counts_of_neighbours_are_within_the_sensitivity_of_the_noise(pairs: Pairs) -> None:
    """Over all releases of a window together: sums by c times the top level, counts by 2 c, in L1."""
    attained: set[str] = set()
    for case, heard, one, other in pairs:
        most, contributions = Fraction(repr(case.policy.epsilon)), case.policy.contributions
        numbers = [role for role in case.schema.quasi_identifiers if isinstance(role, cg.Numeric)]
        for before, after in zip(one, other, strict=True):
            loss, moved = loss_of(heard, before, after)
            assert loss <= most
            for (number, column), change in moved.items():
                bound = contributions * (numbers[column].edges.size - 1) if number == SUMS else 2 * contributions
                assert change <= bound
                attained |= {("sums", "counts")[number]} if change == bound > 0 else set()
            attained |= {"epsilon"} if loss == most else set()
            attained |= {"several columns"} if loss == most and len(moved) > 2 else set()
            attained |= {"several rows"} if loss == most and contributions > 1 else set()
    assert attained == {"sums", "counts", "epsilon", "several columns", "several rows"}, "noise larger than needed"


def test_number_size_and_moment_of_releases_are_the_same_for_neighbours(pairs: Pairs) -> None:
    """With the report, which the fixture compares: rows in, published, suppressed, over the bound, refused, pending."""
    seen: set[str] = set()
    for case, _, one, other in pairs:
        for before, after, (rows, _) in zip(one, other, case.windows, strict=True):
            sizes = [table.num_rows for table in before.tables]
            assert sizes == [table.num_rows for table in after.tables]
            assert all(a.schema.equals(b.schema) for a, b in zip(before.tables, after.tables, strict=True))
            seen |= {"whole"} if sum(sizes) == len(rows) else {"less"}
            seen |= {"in pieces"} if sum(size > 0 for size in sizes) > 1 else set()
            seen |= {"nothing"} if sum(sizes) == 0 else set()
    assert seen == {"whole", "less", "in pieces", "nothing"}


@pytest.mark.parametrize("number", range(40 if COMPILED else 15))
def test_sums_and_counts_move_within_their_bounds_for_any_levels(number: int) -> None:
    """The engine alone, on a hundred windows at a time, with wide domains, absent rows and short last windows."""
    random = np.random.default_rng(500 + number)
    tops, labels = random.integers(1, 2000, random.integers(1, 4)), random.integers(2, 9, random.integers(1, 3))
    roles: list[QuasiIdentifier] = []
    roles += [cg.Numeric(f"n{at}", lower=0, upper=int(top), step=1) for at, top in enumerate(tops)]
    roles += [
        cg.Categorical(f"c{at}", hierarchy=cg.Hierarchy.flat(list("abcdefghi"[:m]))) for at, m in enumerate(labels)
    ]
    schema = cg.Schema(person="p", quasi_identifiers=roles)
    contributions, k, windows = int(random.integers(1, 5)), int(random.integers(1, 7)), 100 if COMPILED else 25
    delay = int(random.integers(max(k, contributions), 6 * k + contributions))
    policy = cg.Doca(epsilon=1.0, delay=delay, k=k, rows_per_person=contributions)
    last = int(random.integers(1, delay + 1))
    rows = (windows - 1) * delay + last
    # The first rows of every window are one person's.
    mine = np.arange(rows) % delay < contributions
    present = mine | (random.random(rows) < random.choice([0.5, 1.0]))
    most = np.array([*tops, *(labels - 1)])
    one, new = (random.integers(0, most + 1, (rows, most.size)) for _ in range(2))
    far = np.repeat(random.random(windows) < 0.3, delay)[:rows] & mine
    one[far], new[far] = 0, most
    told = []
    for levels in (one, np.where(mine[:, None], new, one)):
        heard = Heard()
        with pytest.MonkeyPatch.context() as patch:
            stand_in(patch, heard, as_they_are)
            engine = WindowEngine(schema, policy, keys=WindowKeys(*np.zeros((3, 8), dtype=np.uint32)))
        persons = np.arange(rows, dtype=np.uint64)
        coded = CodedRows(levels.astype(np.float64), persons, np.empty((rows, 0), np.int64), np.zeros(rows, np.bool_))
        decided = join_decisions([engine.push(coded, 0.0, present), engine.flush()])
        told.append((heard.calls, decided))
    (before, decided), (after, same) = told
    assert np.array_equal(decided.position, same.position)
    assert np.array_equal(decided.group, same.group)
    assert np.array_equal(decided.dropped, same.dropped)
    assert len(before) == len(after) == 2 * np.unique(decided.group).size > windows
    moved: tuple[list[Numbers], list[Numbers]] = ([], [])
    for (part, numbers), (_, others) in zip(before, after, strict=True):
        moved[part].append(np.abs(numbers - others).sum(axis=0))
    sums, counts = np.max(moved[SUMS], axis=0), np.max(moved[COUNTS], axis=0)
    assert np.array_equal(sums, contributions * tops)
    assert np.array_equal(counts, np.full(labels.size, 2 * contributions))


def test_the_same_windows_in_one_batch_hand_the_same_numbers_to_the_noise() -> None:
    case = make_case(np.random.default_rng(3), 5)
    rows = [row for one, _ in case.windows for row in one]
    told = []
    for size in (1, 7, len(rows)):
        stream, heard = listening(case.schema, case.policy)
        for at in range(0, len(rows), size):
            stream.push(rows[at : at + size], now=0.0)
        told.append(heard.calls)
    assert len(told[0]) == len(told[1]) == len(told[2]) > 0
    for calls in zip(*told, strict=True):
        assert {number for number, _ in calls} == {calls[0][0]}
        assert all(np.array_equal(numbers, calls[0][1]) for _, numbers in calls)


@pytest.mark.parametrize("number", range(25 if COMPILED else 8))
def test_what_is_published_follows_from_the_noisy_numbers_and_public_facts(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Two streams of the same persons and other values: if the noise answers alike, the tables are alike in every byte.
    So nothing but the answers, the persons and the times is read once the noise is there.
    """
    random = np.random.default_rng(1000 + number)
    case = make_case(random, 12)
    others = [[fresh(random, case.pools, row) for row in rows] for rows, _ in case.windows]
    published, books, told = [], [], []
    for windows in ([rows for rows, _ in case.windows], others):
        stream, heard = listening(case.schema, case.policy, of_its_own)
        calls = feed(stream, heard, windows, cuts=number)
        published.append([to_bytes(table) for call in calls for table in call.tables] + [to_bytes(stream.flush())])
        books.append(public_report(stream))
        told.append(heard.calls)
    assert published[0] == published[1]
    assert books[0] == books[1]
    assert books[0]["gate_refused"] == 0
    known = ("compiling", "nothing was published")  # that follows from the books, which are alike
    assert [record for record in caplog.records if not any(word in record.message for word in known)] == []
    differ = (not np.array_equal(one, other) for (_, one), (_, other) in zip(*told, strict=True))
    assert any(differ) or not told[0], "two streams that are one say nothing"


def fresh(random: np.random.Generator, pools: Sequence[Pool], row: Row) -> Row:
    return {pool.role.name: pool.value(random) for pool in pools} | {"p": row["p"]}


def to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


# -- strict mode: restored streams -------------------------------------------------------------------------------------


def wide(k: int, delay: int) -> tuple[cg.Schema, cg.Doca]:
    """Noise of a few hundred in a column where a value is at most 100, and of a few in counts."""
    tree = cg.Hierarchy.flat(["a", "b", "c"])
    roles: list[QuasiIdentifier] = [cg.Numeric("x", lower=0, upper=100, step=1), cg.Categorical("c", hierarchy=tree)]
    return cg.Schema(person=None, quasi_identifiers=roles), cg.Doca(epsilon=0.5, delay=delay, k=k, max_wait=10.0)


def noises(
    schema: cg.Schema, policy: cg.Doca, calls: Callable[[Anonymiser], object], blob: bytes | None
) -> list[Numbers]:
    """Noise added by a stream restored from `blob`: output of the real noise minus its input."""
    added: list[Numbers] = []
    genuine = Noise.randomise

    def watched(self: object, levels: Numbers, first: int, present: NDArray[np.bool_]) -> None:
        before = levels.copy()
        genuine(self, levels, first, present)  # type: ignore[arg-type]
        added.append(levels - before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noise, "randomise", watched)
        calls(Anonymiser(schema, policy, seed=5) if blob is None else Anonymiser.restore(schema, policy, blob))
    return added


ROWS: list[Row] = [{"x": 50 + at % 3, "c": "abc"[at % 3]} for at in range(60)]


def test_a_window_that_is_cut_differently_after_a_restore_has_other_noise() -> None:
    """If the noise depended on the window's number alone, two releases would reveal the exact difference of sums."""
    schema, policy = wide(k=20, delay=60)
    stream = Anonymiser(schema, policy, seed=5)
    stream.push(ROWS[:40], now=0.0)
    blob = stream.snapshot()
    flushed = noises(schema, policy, lambda stream: stream.flush(), blob)
    overdue = noises(schema, policy, lambda stream: (stream.push(ROWS[40:41], now=1.0), stream.tick(11.0)), blob)
    others = noises(schema, policy, lambda stream: stream.push([{"x": 0, "c": "a"}] * 20, now=1.0), blob)
    full = noises(schema, policy, lambda stream: stream.push(ROWS[40:], now=1.0), blob)
    for one, other in ((flushed, overdue), (flushed, full), (overdue, full), (others, full)):
        assert len(one) == len(other) == 2
        assert one[SUMS][0, 0] != other[SUMS][0, 0]
        assert not np.array_equal(one[COUNTS], other[COUNTS])


def test_a_window_replayed_after_a_restore_publishes_the_same() -> None:
    schema, policy = wide(k=5, delay=15)
    stream = Anonymiser(schema, policy, seed=5)
    parts = [stream.push(ROWS[:22], now=0.0)]
    blob = stream.snapshot()
    parts += [stream.push(ROWS[22:50], now=0.0), stream.flush()]
    for _ in range(2):
        again = Anonymiser.restore(schema, policy, blob)
        replayed = [again.push(rows, now=0.0) for rows in (ROWS[22:23], ROWS[23:50])] + [again.flush()]
        assert to_bytes(pa.concat_tables(replayed)) == to_bytes(pa.concat_tables(parts[1:]))


def test_no_two_windows_have_the_same_noise() -> None:
    """Five windows of the same values: five draws of noise for sums, five for counts, and none twice."""
    schema, policy = wide(k=20, delay=60)
    added = noises(schema, policy, lambda stream: stream.push(ROWS * 5, now=0.0), None)
    for part in (SUMS, COUNTS):
        drawn = {numbers.tobytes() for numbers in added[part::2]}
        assert len(drawn) == 5


def test_the_key_of_a_window_is_gone_once_it_is_released() -> None:
    """So a snapshot does not reveal the noise of earlier releases."""
    mechanisms = [DiscreteLaplace(cells=9, epsilon=Fraction(1))]
    noise = noisy_columns.WindowNoise(mechanisms, key=np.arange(8, dtype=np.uint32))
    before = noise.snapshot()["key"]
    noise.randomise(np.zeros((1, 1), dtype=np.int64), b"a window")
    after = noise.snapshot()["key"]
    assert not np.any(before == after)
    noise.randomise(np.zeros((1, 1), dtype=np.int64), b"the next")
    noise.restore({"key": before})
    noise.randomise(np.zeros((1, 1), dtype=np.int64), b"another window")
    assert np.array_equal(noise.snapshot()["key"], after), "the keys to come depend on no row"


def test_rows_of_a_person_are_bounded_over_all_releases_of_a_window() -> None:
    schema = cg.Schema(person="p", quasi_identifiers=[cg.Numeric("x", lower=0, upper=9, step=1)])
    stream, heard = listening(schema, cg.Doca(epsilon=1.0, delay=12, k=1, rows_per_person=2))
    others: list[Row] = [{"p": at, "x": 0} for at in range(6)]
    mine: list[Row] = [{"p": "a", "x": 9}] * 2
    sizes = []
    # Two windows: the person has the last six rows of the first, and the first six of the second.
    for rows in (others, mine, mine, mine, mine, mine, mine, others):
        sizes.append(stream.push(rows).num_rows + stream.flush().num_rows)
    assert sizes == [6, 2, 0, 0, 2, 0, 0, 6]
    assert sum(int(numbers.sum()) for _, numbers in heard.calls) == 4 * 9


# -- paper mode --------------------------------------------------------------------------------------------------------


def visible_partition(values: NDArray[np.float64], seed: int) -> list[int]:
    """Sizes of the groups in order of release, visible to anyone as runs of equal numbers."""
    table = cg.anonymise(pa.table({"x": values}), PAPER_SCHEMA, PAPER, seed=seed)
    return [len(list(same)) for _, same in groupby(table["x"].to_pylist())]


PAPER_SCHEMA = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x", lower=0, upper=100)])
PAPER = cg.Doca(epsilon=1.0, delay=100, max_clusters=20, mode="paper")


def test_paper_mode_reveals_its_partition_and_so_claims_no_epsilon() -> None:
    """One value of 600 is replaced. An outcome that only one of two neighbours can have has no finite epsilon."""
    pairs = 100 if COMPILED else 10
    changed = 0
    for number in range(pairs):
        random = np.random.default_rng(number)
        values = random.uniform(0, 100, 600)
        other = values.copy()
        other[random.integers(600)] = random.uniform(0, 100)
        changed += visible_partition(values, number) != visible_partition(other, number)
    assert changed >= 0.8 * pairs
    statement = PAPER.guarantee(PAPER_SCHEMA, seeded=False)
    assert statement.privacy is None
    assert "NO differential privacy" in str(statement)
