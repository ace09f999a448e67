"""Randomised rows equal those of the slow reference, in any batches, after restarts and repetitions."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.errors import SnapshotError, UsageError
from castleguard.kernels.chacha import RATCHET
from castleguard.privacy.mechanisms import Bernoulli, DiscreteLaplace, Mechanism, RandomisedResponse
from castleguard.privacy.noise import Noise
from tests.reference import noise as reference
from tests.reference.chacha import Draws

Levels = NDArray[np.int64]

KEY = tuple(range(8))
keys = st.tuples(*[st.integers(0, 2**32 - 1)] * 8)
epsilons = (
    st.fractions(Fraction(1, 100), 100, max_denominator=100)
    | st.sampled_from([Fraction(1, 10**6), Fraction(10**4), Fraction(10**6)])
    | st.floats(1e-6, 1e3).map(Fraction)
)
edge_cells = st.sampled_from([0, 1, 2, 3, 100, 255, 256, 257, 258, 259, 65536, 65537, 65538, 65539, 10**7, 2**53])
mechanisms = st.builds(reference.Laplace, edge_cells | st.integers(0, 2000), epsilons) | st.builds(
    reference.Response, st.sampled_from([1, 2, 3, 2**31]) | st.integers(1, 300), epsilons
)
positions = st.integers(0, 10**6) | st.integers(-20, 20).map(lambda d: RATCHET + d) | st.just(3 * RATCHET - 2)


def compiled(mechanism: reference.Mechanism) -> Mechanism:
    if isinstance(mechanism, reference.Laplace):
        return DiscreteLaplace(cells=mechanism.cells, epsilon=mechanism.epsilon)
    return RandomisedResponse(values=mechanism.values, epsilon=mechanism.epsilon)


def make_noise(
    mechanisms: Sequence[Mechanism], key: Sequence[int] = KEY, rate: Fraction | None = None, words: int = 8
) -> Noise:
    coin = None if rate is None else Bernoulli(rate=rate)
    return Noise(mechanisms, key=np.array(key, dtype=np.uint32), rate=coin, words=words)


def randomised(noise: Noise, levels: Levels, first: int, present: Sequence[bool] | None = None) -> Levels:
    changed = levels.copy()
    flags = np.ones(len(levels), dtype=np.bool_) if present is None else np.array(present, dtype=np.bool_)
    noise.randomise(changed, first, flags)
    return changed


def some_levels(mechanisms: Sequence[Mechanism], rows: int, seed: int = 1) -> Levels:
    random = np.random.default_rng(seed)
    columns = [random.integers(0, mechanism.top + 1, rows) for mechanism in mechanisms]
    return np.ascontiguousarray(np.array(columns, dtype=np.int64).reshape(len(mechanisms), rows).T)


def epsilon_with_edge(words: Sequence[int]) -> Fraction:
    """An epsilon for which DiscreteLaplace(cells=1) has an edge that starts with these words and continues.

    Its edges are c and 1 - c for c = 1 / (1 + e^epsilon).
    """
    with localcontext() as context:
        context.prec = 60 + 10 * len(words)
        edge = (
            Decimal(int.from_bytes(b"".join(word.to_bytes(4, "big") for word in words), "big")) + Decimal("0.5")
        ) / (Decimal(2) ** (32 * len(words)))
        return Fraction(((1 - edge) / edge).ln().copy_abs())


@given(st.lists(mechanisms, min_size=1, max_size=4), keys, positions, st.data())
def test_every_level_equals_that_of_the_reference(
    twins: list[reference.Mechanism], key: tuple[int, ...], first: int, data: st.DataObject
) -> None:
    rows = data.draw(st.integers(1, 24))
    drawn = [data.draw(st.tuples(*(st.integers(0, twin.top) for twin in twins))) for _ in range(rows)]
    present = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    sampler = reference.Sampler(key, twins)
    expected = [
        sampler.randomise(first + row, levels) if present[row] else list(levels) for row, levels in enumerate(drawn)
    ]
    noise = make_noise([compiled(twin) for twin in twins], key)
    assert randomised(noise, np.array(drawn, dtype=np.int64), first, present).tolist() == expected


@given(keys, st.fractions(0, 1).filter(bool) | st.floats(0, 1, exclude_min=True).map(Fraction), positions)
def test_every_coin_equals_that_of_the_reference(key: tuple[int, ...], rate: Fraction, first: int) -> None:
    sampler = reference.Sampler(key, [])
    expected = [sampler.keep(first + row, rate) for row in range(20)]
    assert make_noise([], key, rate).sample(first, 20).tolist() == expected


COLUMNS = (
    DiscreteLaplace(cells=100, epsilon=Fraction(1)),
    RandomisedResponse(values=7, epsilon=Fraction(1, 2)),
    DiscreteLaplace(cells=10**6, epsilon=Fraction(3)),
    RandomisedResponse(values=1, epsilon=Fraction(1)),
    DiscreteLaplace(cells=0, epsilon=Fraction(1)),
)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_batches_do_not_matter(sizes: list[int]) -> None:
    rows = sum(sizes)
    first = RATCHET - rows // 2
    levels = some_levels(COLUMNS, rows)
    present = np.random.default_rng(2).random(rows) < 0.7
    whole = make_noise(COLUMNS, rate=Fraction(1, 3))
    parts = make_noise(COLUMNS, rate=Fraction(1, 3))
    # Sampled at once or batch by batch, before or after randomising: the key depends on the position only.
    kept = whole.sample(first, rows)
    together = randomised(whole, levels, first, present.tolist())
    at = 0
    for size in sizes:
        part = slice(at, at + size)
        assert (randomised(parts, levels[part], first + at, present[part].tolist()) == together[part]).all()
        assert (parts.sample(first + at, size) == kept[part]).all()
        at += size


def test_rows_that_are_not_present_stay_unchanged_and_do_not_affect_others() -> None:
    levels = some_levels(COLUMNS, 50)
    present = [row % 3 > 0 for row in range(50)]
    full = randomised(make_noise(COLUMNS), levels, 0)
    some = randomised(make_noise(COLUMNS), levels, 0, present)
    assert (some[present] == full[present]).all()
    absent = np.logical_not(present)
    assert (some[absent] == levels[absent]).all()


@given(keys, st.sampled_from([3, RATCHET, 2 * RATCHET + 5]), st.integers(1, 3))
def test_an_undecided_row_is_done_again_with_longer_tables(key: tuple[int, ...], position: int, agreeing: int) -> None:
    """The mechanism is built for the row: one of its edges starts with the words that the row will draw."""
    draws = Draws(key)
    for multiple in range(RATCHET, position + 1, RATCHET):
        draws.ratchet(multiple)
    first = max(position - 3, 0)
    for columns in ((COLUMNS[0], COLUMNS[1]), ()):
        levels = some_levels((DiscreteLaplace(cells=1, epsilon=Fraction(1)), *columns), 9)
        content = reference.content_of(levels[position - first].tolist())
        words = [draws.word("noise", position, at, content) for at in range(agreeing)]
        assume(words[0] not in (0, 2**31 - 1, 2**31, 2**32 - 1))
        mechanisms = (DiscreteLaplace(cells=1, epsilon=epsilon_with_edge(words)), *columns)
        short, long = make_noise(mechanisms, key, words=1), make_noise(mechanisms, key, words=16)
        assert (randomised(short, levels, first) == randomised(long, levels, first)).all()
        # It happened: the tables have grown beyond the words that agree.
        assert short.words > agreeing
        assert long.words == 16


def test_a_row_that_is_undecided_by_chance_gives_what_longer_tables_give() -> None:
    """With tables of a single word, this row is the first in three million under this key that is undecided."""
    mechanisms = [DiscreteLaplace(cells=257, epsilon=Fraction(1))] * 7
    levels = np.full((20, 7), 128, dtype=np.int64)
    short, long = make_noise(mechanisms, words=1), make_noise(mechanisms)
    first = 3_305_669 - 10
    assert (randomised(short, levels, first) == randomised(long, levels, first)).all()
    assert short.words == 2


def test_an_undecided_coin_is_flipped_again_with_more_digits() -> None:
    word = Draws(KEY).word("sample", 12, 0)
    rate = Fraction(3 * word + 1, 3 << 32)
    short, long = make_noise([], rate=rate, words=1), make_noise([], rate=rate)
    assert short.sample(0, 30).tolist() == long.sample(0, 30).tolist()
    sampler = reference.Sampler(KEY, [])
    assert short.sample(0, 30).tolist() == [sampler.keep(row, rate) for row in range(30)]


@given(keys, st.integers(0, 2**20 - 1), st.data())
def test_another_row_at_the_same_position_shares_no_word(key: tuple[int, ...], first: int, data: st.DataObject) -> None:
    """The same row gets the same noise again; if any column differs, all columns get different noise."""
    wide = [DiscreteLaplace(cells=2**40, epsilon=Fraction(1))] * 3
    top = 2**40
    middle = np.array([[data.draw(st.integers(top // 2 - 9, top // 2 + 9)) for _ in wide]])
    other = middle.copy()
    other[0, data.draw(st.integers(0, 2))] += data.draw(st.sampled_from([-1, 1]))
    noise = make_noise(wide, key)
    once, again, differing = (randomised(noise, row, first) - row for row in (middle, middle, other))
    assert (once == again).all()
    # An end of the domain hides the size of the noise; two draws agree by chance with probability 2^-39.
    inside = (once + middle > 0) & (once + middle < top) & (differing + other > 0) & (differing + other < top)
    assert not (inside & (once == differing)).any()


def test_a_level_outside_the_domain_gets_the_noise_of_the_nearest_level() -> None:
    mechanisms = [DiscreteLaplace(cells=1000, epsilon=Fraction(1))]
    beyond, ends = np.array([[-5], [2**62]]), np.array([[0], [1000]])
    assert (randomised(make_noise(mechanisms), beyond, 0) == randomised(make_noise(mechanisms), ends, 0)).all()


def test_a_coin_does_not_depend_on_the_row() -> None:
    rate, mechanisms = Fraction(1, 3), COLUMNS
    one, other = make_noise(mechanisms, rate=rate), make_noise(mechanisms, rate=rate)
    randomised(one, some_levels(mechanisms, 30, seed=1), 0)
    randomised(other, some_levels(mechanisms, 30, seed=2), 0)
    assert one.sample(0, 60).tolist() == other.sample(0, 60).tolist()


def test_without_a_rate_every_row_is_kept() -> None:
    assert make_noise(COLUMNS).sample(0, 1000).all()
    assert make_noise(COLUMNS, rate=Fraction(1)).sample(0, 1000).all()
    assert make_noise(COLUMNS).sample(0, 0).size == 0


@pytest.mark.parametrize("at", [10, RATCHET - 1, RATCHET, RATCHET + 3])
def test_restored_noise_draws_the_same(at: int) -> None:
    levels = some_levels(COLUMNS, 40)
    noise = make_noise(COLUMNS, rate=Fraction(1, 3))
    randomised(noise, levels, at - 10)
    noise.sample(at - 10, 30)  # sampling is ahead, perhaps under the next key
    kept = noise.snapshot()
    other = make_noise(COLUMNS, key=[9] * 8, rate=Fraction(1, 3))
    other.restore(kept)
    assert (randomised(other, levels, at + 30) == randomised(noise, levels, at + 30)).all()
    assert (other.sample(at + 20, 50) == noise.sample(at + 20, 50)).all()
    for name, array in noise.snapshot().items():
        assert (array == other.snapshot()[name]).all()


def test_a_snapshot_is_a_copy_and_holds_no_key_of_earlier_rows() -> None:
    noise = make_noise(COLUMNS, rate=Fraction(1, 2))
    before = noise.snapshot()
    randomised(noise, some_levels(COLUMNS, 3), RATCHET - 1)
    noise.sample(RATCHET - 1, 3)
    after = noise.snapshot()
    assert before["keys"].tolist() == [list(KEY)] * 2
    assert before["key_positions"].tolist() == [0, 0]
    assert after["key_positions"].tolist() == [RATCHET, RATCHET]
    assert after["keys"][0].tolist() == after["keys"][1].tolist()
    assert not set(after["keys"][0].tolist()) & set(KEY)


def test_an_unused_key_is_not_kept() -> None:
    """It would never be replaced, and would reveal the other one."""
    nothing = [0] * 8
    assert make_noise(COLUMNS).snapshot()["keys"].tolist() == [list(KEY), nothing]
    assert make_noise(COLUMNS, rate=Fraction(1)).snapshot()["keys"].tolist() == [list(KEY), nothing]
    assert make_noise([], rate=Fraction(1, 2)).snapshot()["keys"].tolist() == [nothing, list(KEY)]
    nowhere = make_noise([])
    nowhere.randomise(np.zeros((3, 0), dtype=np.int64), 0, np.ones(3, dtype=np.bool_))
    assert nowhere.snapshot()["key_positions"].tolist() == [-1, -1]


def test_a_snapshot_without_a_key_that_is_needed_is_refused() -> None:
    with_coin, without = make_noise(COLUMNS, rate=Fraction(1, 2)), make_noise(COLUMNS)
    for one, other in ((with_coin, without), (without, with_coin)):
        with pytest.raises(SnapshotError, match="keys for other draws"):
            one.restore(other.snapshot())


@pytest.mark.parametrize("name", ["keys", "key_positions"])
def test_a_snapshot_that_does_not_fit_is_refused_as_a_whole(name: str) -> None:
    noise = make_noise(COLUMNS)
    kept = make_noise(COLUMNS, key=[9] * 8).snapshot()
    for wrong in ({}, {name: kept[name][:1]}, {name: kept[name].astype(np.float64)}):
        arrays = {other: kept[other] for other in kept if other != name} | wrong
        with pytest.raises(SnapshotError, match=name):
            noise.restore(arrays)
    assert noise.snapshot()["keys"][0].tolist() == list(KEY)


def test_positions_before_the_current_key_are_refused() -> None:
    noise = make_noise(COLUMNS, rate=Fraction(1, 2))
    levels = some_levels(COLUMNS, 1)
    randomised(noise, levels, RATCHET)
    randomised(noise, levels, RATCHET)
    with pytest.raises(UsageError, match="must not go back"):
        randomised(noise, levels, RATCHET - 1)
    noise.sample(0, 1)  # has a copy of its own
    noise.sample(RATCHET, 1)
    with pytest.raises(UsageError, match="must not go back"):
        noise.sample(0, 1)


def test_a_table_of_another_shape_is_refused() -> None:
    noise = make_noise(COLUMNS)
    with pytest.raises(UsageError, match="5 columns"):
        noise.randomise(np.zeros((3, 4), dtype=np.int64), 0, np.ones(3, dtype=np.bool_))
    with pytest.raises(UsageError, match="one flag per row"):
        noise.randomise(np.zeros((3, 5), dtype=np.int64), 0, np.ones(2, dtype=np.bool_))
