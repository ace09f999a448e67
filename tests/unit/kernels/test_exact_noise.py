"""Comparison of random words with cumulative probabilities, on constructed words."""

from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.kernels.chacha import NOISE, PURPOSES, RESPONSE, SAMPLE, Draws, begin_event, new_words
from castleguard.kernels.compile import entry_kernel
from castleguard.kernels.exact_noise import Tables, draw_coin, randomise_row
from castleguard.privacy.mechanisms import Bernoulli, DiscreteLaplace, Mechanism, RandomisedResponse
from castleguard.privacy.noise import pack

Words = NDArray[np.uint32]
Levels = NDArray[np.int64]

HIGHEST = 2**32 - 1
POSITION = 5


@entry_kernel
def one_row(draws: Draws, tables: Tables, levels: Levels, row: Levels, done: NDArray[np.bool_]) -> None:
    """Expose one row to Python, which can call entry kernels only."""
    begin_event(draws)
    done[0] = randomise_row(draws, POSITION, tables, levels, row)


@entry_kernel
def one_coin(draws: Draws, rate: Words, whole: bool, coin: Levels) -> None:
    """Expose one coin to Python."""
    begin_event(draws)
    coin[0] = draw_coin(draws, POSITION, rate, whole)


def scripted(words: list[int]) -> Draws:
    """Draws whose first words at POSITION are these, for every purpose; use of other words would be noticed."""
    state = np.full((3, PURPOSES), -1, dtype=np.int64)
    draws = Draws(new_words(np.zeros(8, dtype=np.uint32)), state[0], state[1], state[2])
    for purpose in (NOISE, RESPONSE, SAMPLE):
        draws.words[purpose, : len(words)] = words
        draws.position[purpose], draws.number[purpose] = POSITION, 0
    return draws


def randomised(
    mechanisms: list[Mechanism], levels: list[int], script: list[int], words: int = 1
) -> tuple[list[int] | None, int, int]:
    """Levels (None: undecided), and the number of words used for noise and for responses."""
    draws, changed, done = scripted(script), np.array(levels, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    one_row(draws, pack(mechanisms, words), changed, np.zeros(len(levels), dtype=np.int64), done)
    if not done[0]:
        assert changed.tolist() == levels  # an undecided row is unchanged
    return changed.tolist() if done[0] else None, int(draws.drawn[NOISE]), int(draws.drawn[RESPONSE])


def laplace(cells: int, epsilon: Fraction | int = 1) -> DiscreteLaplace:
    return DiscreteLaplace(cells=cells, epsilon=Fraction(epsilon))


def response(values: int, epsilon: Fraction | int = 1) -> RandomisedResponse:
    return RandomisedResponse(values=values, epsilon=Fraction(epsilon))


def words_of(number: int, words: int) -> list[int]:
    return [number >> 32 * (words - 1 - at) & HIGHEST for at in range(words)]


small_laplace = st.builds(laplace, st.integers(1, 257), st.fractions(Fraction(1, 1000), 1000, max_denominator=1000))


@given(small_laplace, st.data())
def test_a_word_selects_the_outcome_whose_edges_enclose_it(mechanism: DiscreteLaplace, data: st.DataObject) -> None:
    """From the middle of a domain twice as wide, no level is clipped: the level shows the outcome."""
    [table] = mechanism.tables(1)
    near = st.sampled_from(table).flatmap(lambda edge: st.integers(edge - 2, edge + 2))
    word = data.draw((near | st.integers(0, HIGHEST)).filter(lambda word: 0 <= word <= HIGHEST))
    tables = pack([mechanism], 1)
    tables.columns[0, 3] = 2 * mechanism.cells
    level, done = np.array([mechanism.cells], dtype=np.int64), np.zeros(1, dtype=np.bool_)
    one_row(scripted([word]), tables, level, np.zeros(1, dtype=np.int64), done)
    assert done[0] == (word not in table)
    if done[0]:
        assert level[0] == bisect_right(table, word)


def first_difference(a: list[int], b: list[int]) -> int:
    return next(at for at in range(len(a)) if a[at] != b[at])


@given(small_laplace, st.integers(2, 4), st.data())
def test_a_word_on_an_edge_is_decided_by_the_next_word_that_differs(
    mechanism: DiscreteLaplace, words: int, data: st.DataObject
) -> None:
    """Only as many words are used as are needed to separate the fraction from every edge."""
    [table] = mechanism.tables(words)
    edge = data.draw(st.sampled_from(table))
    assert randomised([mechanism], [0], words_of(edge, words), words)[0] is None
    step = data.draw(st.sampled_from([-1, 1])) << 32 * data.draw(st.integers(0, words - 2))
    moved = min(max(edge + step, 0), (1 << 32 * words) - 1)
    script = words_of(moved, words)
    for level in (0, mechanism.cells):
        after, taken, _ = randomised([mechanism], [level], script, words)
        if moved in table:
            assert after is None
        else:
            noise = bisect_right(table, moved) - mechanism.cells
            assert after == [min(max(level + noise, 0), mechanism.cells)]
            assert taken == 1 + max(first_difference(script, words_of(edge, words)) for edge in table)


def test_edges_with_equal_first_words_are_distinguished_by_later_words() -> None:
    """At epsilon 15 a cell, most edges are below 2^-32 or above 1 - 2^-32."""
    mechanism = laplace(10, 150)
    [table] = mechanism.tables(8)
    assert sum(edge >> 224 == 0 for edge in table) > 5
    assert sum(edge >> 224 == HIGHEST for edge in table) > 5
    for at in range(9):
        between = (table[at] + table[at + 1]) // 2
        level, taken, _ = randomised([mechanism], [10], words_of(between, 8), 8)
        assert level == [at + 1]
        assert 1 <= taken <= 8


def test_zero_noise_is_certain_only_in_the_limit() -> None:
    mechanism = laplace(100, 10**6)
    assert randomised([mechanism], [50], [0] * 8, 8)[0] is None
    assert randomised([mechanism], [50], [HIGHEST] * 8, 8)[0] is None
    assert randomised([mechanism], [50], [0] * 7 + [1], 8) == ([50], 8, 0)
    assert randomised([mechanism], [50], [HIGHEST] * 7 + [HIGHEST - 1], 8) == ([50], 8, 0)
    assert randomised([mechanism], [50], [1], 8) == ([50], 1, 0)


def test_digits_are_drawn_lowest_first_and_none_for_zero() -> None:
    mechanism = laplace(70_000, 1)
    signed, middle, top = mechanism.tables(1)

    def word(table: list[int], outcome: int) -> int:
        return (table[outcome - 1] + table[outcome]) // 2 if outcome < len(table) else HIGHEST

    above = [word(signed, 256 + 3), word(middle, 5), word(top, 1)]
    assert randomised([mechanism], [100], above) == ([100 + 3 + 5 * 256 + 65536], 3, 0)
    below = [word(signed, 256 - 3), word(middle, 5), 0]
    assert randomised([mechanism], [60_000], below) == ([60_000 - 3 - 5 * 256], 3, 0)
    assert randomised([mechanism], [60_000], [word(signed, 256)]) == ([60_000], 1, 0)
    # The last outcome of the top digit covers everything beyond the domain.
    assert randomised([mechanism], [0], [word(signed, 257), word(middle, 0), HIGHEST])[0] == [70_000]
    assert randomised([mechanism], [70_000], [word(signed, 255), 0, HIGHEST])[0] == [0]


@given(st.integers(2, 1000), st.integers(0, HIGHEST), st.data())
def test_another_value_is_drawn_without_modulo_bias(values: int, word: int, data: st.DataObject) -> None:
    """2^32 is not a multiple of most numbers: words from the largest multiple on are rejected."""
    others = values - 1
    fair = 2**32 // others * others
    word = data.draw(st.sampled_from([word, 0, fair - 1, min(fair, HIGHEST), HIGHEST]))
    level = data.draw(st.integers(0, others))
    expected, taken = (word, 2) if word < fair else (7, 3)
    order = [value for value in range(values) if value != level]
    assert randomised([response(values)], [level], [HIGHEST, word, 7]) == ([order[expected % others]], 0, taken)


def test_a_value_is_kept_below_the_edge_and_only_there() -> None:
    mechanism = response(5, 2)
    [[edge]] = mechanism.tables(1)
    assert randomised([mechanism], [3], [edge - 1]) == ([3], 0, 1)
    assert randomised([mechanism], [3], [edge])[0] is None
    assert randomised([mechanism], [3], [edge + 1, 0]) == ([0], 0, 2)
    assert abs(edge / 2**32 - np.exp(2) / (np.exp(2) + 4)) < 2**-31


def test_a_column_without_noise_uses_no_draws() -> None:
    assert randomised([laplace(0), response(1)], [0, 0], []) == ([0, 0], 0, 0)


@pytest.mark.parametrize("level", [-(2**63), -1, 8, 2**63 - 1])
def test_an_invalid_level_counts_as_the_nearest_valid_one(level: int) -> None:
    nearest = 0 if level < 0 else 7
    for word in (0, 2**30, 2**31, HIGHEST):
        for mechanism in (laplace(7), response(8)):
            script = [word, 3]
            assert randomised([mechanism], [level], script) == randomised([mechanism], [nearest], script)
    assert randomised([laplace(0), response(1)], [level, level], [])[0] == [0, 0]


def test_an_undecided_column_leaves_the_whole_row_unchanged() -> None:
    mechanism = laplace(1)
    edge = mechanism.tables(1)[0][0]
    assert randomised([laplace(100), mechanism], [50, 1], [0, edge])[0] is None


def flip(rate: Fraction, script: list[int], words: int) -> int:
    digits, whole = Bernoulli(rate=rate).digits(words)
    coin = np.zeros(1, dtype=np.int64)
    one_coin(scripted(script), np.array(words_of(digits, words), dtype=np.uint32), whole, coin)
    return int(coin[0])


def test_a_coin_is_decided_by_the_first_word_that_differs() -> None:
    third = Fraction(1, 3)
    assert flip(third, [0x55555555, 0x55555554], 2) == 1
    assert flip(third, [0x55555555, 0x55555556], 2) == 0
    assert flip(third, [0x55555555, 0x55555555], 2) == -1
    assert flip(third, [0x55555554, HIGHEST], 2) == 1


def test_a_fraction_equal_to_a_finite_rate_is_not_below_it() -> None:
    half = Fraction(1, 2)
    assert [flip(half, [word], 1) for word in (2**31 - 1, 2**31, 2**31 + 1)] == [1, 0, 0]
    assert [flip(half, [2**31, 0, word], 3) for word in (0, 1, HIGHEST)] == [0, 0, 0]
    tenth = Fraction(0.1)  # 3602879701896397 / 2^55
    digits = words_of(int(tenth * 2**64), 2)
    assert [flip(tenth, [digits[0], digits[1] + step], 2) for step in (-1, 0, 1)] == [1, 0, 0]
    assert flip(tenth, digits, 1) == -1  # one word does not hold all digits
