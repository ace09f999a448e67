"""Randomise the levels of a batch: discrete Laplace noise and k-ary randomised response, exact on integers.

Every draw compares one uniform binary fraction U with the cumulative probabilities c_0 < c_1 < ... of its outcomes;
outcome j is the first with U < c_j. U is generated lazily: its first 32-bit word decides unless it equals the first
word of some c_j; only then is the next word read, and so on. A table holds each c_j truncated to a fixed number of
words. As every c_j is irrational, a U that differs from it within these words lies on the correct side; a U that agrees
in all of them (probability 2^-256 with eight words) is *undecided*, and the row is processed again with longer tables
and the same words. The outcome is therefore exactly that of infinitely long tables.

No floats, no logarithms, no modulo bias. See docs/proofs/noise.md; `privacy/mechanisms.py` computes the tables, and
the slow twin is `tests/reference/noise.py`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.arrays import Flags, Hashes2, Ints, Ints2, Shorts2, Words, Words2
from castleguard.kernels.chacha import (
    LANES,
    NOISE,
    RATCHET,
    RESPONSE,
    SAMPLE,
    Draws,
    address_contents,
    address_positions,
    advance_key,
    begin_content,
    begin_event,
    chacha_lanes,
    next_word,
    use_lane,
    word_at,
)
from castleguard.kernels.compile import Bool, Int, entry_kernel, inlined_kernel, kernel
from castleguard.kernels.content import begin_digest, last_word
from castleguard.kernels.siphash import add_word, end_hash

DIGIT = 256  # base in which the magnitude of the noise is drawn
GUIDE_BITS = 10
UNDECIDED = -1

# Elements of a row of `Tables.columns`.
KIND, TABLE, DRAWS, TOP = 0, 1, 2, 3
LAPLACE, RESPONDS = 0, 1

_GUIDE_SHIFT = 32 - GUIDE_BITS
_WORD_VALUES = 1 << 32


class Tables(NamedTuple):
    """Cumulative probabilities for all columns of a row, one table after the other."""

    columns: Ints2  # (columns, 4) kind, first table, number of tables (0 = nothing to draw), highest level
    start: Ints  # (tables + 1,) where each table's entries begin
    guide: Shorts2  # (tables, 2^GUIDE_BITS) per prefix of a word: the first entry that can exceed it
    heads: Words  # (entries,) the first word of each entry; a table ends with 2^32 - 1, meaning 1
    words: Words2  # (entries, words) all words


class Work(NamedTuple):
    """Scratch space; keeps nothing between calls."""

    row: Ints  # (columns,)
    lanes: Words2  # (2, 16 * LANES) the blocks of the next rows, for NOISE and RESPONSE
    nonces: Words  # (3 * LANES,) their addresses
    digests: Ints  # (LANES,) digests of the rows, part of the addresses
    hashes: Hashes2  # (5, LANES) hash states of these digests


@kernel
def _settle(draws: Draws, purpose: Int, position: Int, tables: Tables, table: Int, first: Int) -> Int:
    """Resolve a draw whose first word equals the head of entry `first`; return the outcome or UNDECIDED."""
    index = draws.drawn[purpose] - 1
    last = tables.start[table + 1] - 1
    at = first
    while at < last:
        word = 0
        while word < tables.words.shape[1]:
            mine = word_at(draws, purpose, position, index + word)
            draws.drawn[purpose] = max(draws.drawn[purpose], index + word + 1)
            if mine != tables.words[at, word]:
                break
            word += 1
        if word == tables.words.shape[1]:
            return UNDECIDED
        if mine < tables.words[at, word]:
            break
        at += 1
    return at - tables.start[table]


@inlined_kernel
def draw_outcome(draws: Draws, purpose: Int, position: Int, tables: Tables, table: Int) -> Int:
    """Draw the number of an outcome, or UNDECIDED."""
    word = next_word(draws, purpose, position)
    start = tables.start[table]
    at = start + np.int64(tables.guide[table, np.int64(word) >> _GUIDE_SHIFT])
    while tables.heads[at] < word:
        at += 1
    if tables.heads[at] == word:
        return _settle(draws, purpose, position, tables, table, at)
    return at - start


@inlined_kernel
def noisy_level(draws: Draws, position: Int, tables: Tables, column: Int, level: Int) -> Int:
    """Level plus two-sided geometric noise, clipped to the valid levels, or UNDECIDED.

    The first table gives zero, or the sign and the lowest digit of the magnitude minus one; each other table gives one
    more digit.
    """
    table = tables.columns[column, TABLE]
    outcome = draw_outcome(draws, NOISE, position, tables, table)
    if outcome == UNDECIDED:
        return UNDECIDED
    noise = outcome - (tables.start[table + 1] - tables.start[table]) // 2
    if noise != 0:
        # The number of digits per column is limited so that this cannot overflow.
        size, weight = np.int64(0), np.int64(DIGIT)
        for digit in range(1, tables.columns[column, DRAWS]):
            outcome = draw_outcome(draws, NOISE, position, tables, table + digit)
            if outcome == UNDECIDED:
                return UNDECIDED
            size += outcome * weight
            weight *= DIGIT
        noise = noise + size if noise > 0 else noise - size
    return min(max(level + noise, 0), tables.columns[column, TOP])


@kernel
def other_level(draws: Draws, position: Int, level: Int, others: Int) -> Int:
    """Draw one of the `others` levels other than this one, uniformly.

    Words at or above the largest multiple of `others` are rejected, so the remainder is exactly uniform.
    """
    fair = _WORD_VALUES - _WORD_VALUES % others
    word = np.int64(next_word(draws, RESPONSE, position))
    while word >= fair:
        word = np.int64(next_word(draws, RESPONSE, position))
    other = word % others
    return other if other < level else other + 1


@inlined_kernel
def responded_level(draws: Draws, position: Int, tables: Tables, column: Int, level: Int) -> Int:
    """Level itself or, depending on the coin, another one; or UNDECIDED."""
    outcome = draw_outcome(draws, RESPONSE, position, tables, tables.columns[column, TABLE])
    if outcome == 1:
        return other_level(draws, position, level, tables.columns[column, TOP])
    return level if outcome == 0 else UNDECIDED


@kernel
def nearest_level(tables: Tables, column: Int, level: Int) -> Int:
    """Level clipped to the valid levels."""
    return min(max(level, 0), tables.columns[column, TOP])


@kernel
def _digest_word(hashes: NDArray[np.uint64]) -> None:
    """Add one word to the hashes of LANES rows; row 4 of `hashes` holds the words.

    The loop runs along a constant number of lanes: only then does the compiler vectorise it.
    """
    for l in range(LANES):
        state = add_word((hashes[0, l], hashes[1, l], hashes[2, l], hashes[3, l]), hashes[4, l])
        hashes[0, l], hashes[1, l], hashes[2, l], hashes[3, l] = state


@kernel
def digest_rows(draws: Draws, tables: Tables, levels: NDArray[np.int64], work: Work) -> None:
    """Compute the digests of at most LANES rows, over all values that are read."""
    hashes = work.hashes
    v0, v1, v2, v3 = begin_digest(draws)
    for l in range(LANES):
        hashes[0, l], hashes[1, l], hashes[2, l], hashes[3, l] = v0, v1, v2, v3
    for column in range(levels.shape[1]):
        for row in range(levels.shape[0]):
            hashes[4, row] = np.uint64(nearest_level(tables, column, levels[row, column]))
        _digest_word(hashes)
    for l in range(LANES):
        hashes[4, l] = last_word(levels.shape[1])
    _digest_word(hashes)
    for l in range(LANES):
        work.digests[l] = np.int64(end_hash((hashes[0, l], hashes[1, l], hashes[2, l], hashes[3, l])))


@inlined_kernel
def randomise_row(
    draws: Draws, position: Int, tables: Tables, levels: NDArray[np.int64], row: NDArray[np.int64]
) -> Bool:
    """Replace the levels of one row by randomised ones; return False, without changes, if a draw is undecided.

    Invalid levels are clipped first, so that the guarantee holds for any input.
    """
    for column in range(levels.size):
        level = nearest_level(tables, column, levels[column])
        if tables.columns[column, DRAWS] > 0:
            if tables.columns[column, KIND] == LAPLACE:
                level = noisy_level(draws, position, tables, column, level)
            else:
                level = responded_level(draws, position, tables, column, level)
            if level == UNDECIDED:
                return False
        row[column] = level
    for column in range(levels.size):
        levels[column] = row[column]
    return True


@kernel
def _draws_any(tables: Tables, kind: Int) -> Bool:
    """Whether any column of this kind needs draws."""
    for column in range(tables.columns.shape[0]):
        if tables.columns[column, KIND] == kind and tables.columns[column, DRAWS] > 0:
            return True
    return False


@entry_kernel
def randomise_rows(
    draws: Draws,
    tables: Tables,
    first_position: Int,
    present: Flags,
    levels: Ints2,
    work: Work,
) -> Int:
    """Randomise the present rows in place; return the number of rows processed.

    If that is not all of them, the next row is undecided and unchanged. Continuing there with longer tables gives the
    same result as using longer tables from the start.
    """
    rows = levels.shape[0]
    noise, response = _draws_any(tables, LAPLACE), _draws_any(tables, RESPONDS)
    row = 0
    while row < rows:
        position = first_position + row
        advance_key(draws, position)
        # Only rows under the same key can share a set of lanes.
        together = min(LANES, rows - row, RATCHET - (position - draws.position[0]))
        digest_rows(draws, tables, levels[row : row + together], work)
        if noise:
            address_contents(NOISE, position, work.digests, work.nonces)
            chacha_lanes(draws.words[0], work.nonces, work.lanes[0])
        if response:
            address_contents(RESPONSE, position, work.digests, work.nonces)
            chacha_lanes(draws.words[0], work.nonces, work.lanes[1])
        for lane in range(together):
            if present[row]:
                begin_content(draws, work.digests[lane])
                if noise:
                    use_lane(draws, NOISE, position + lane, work.lanes[0], lane)
                if response:
                    use_lane(draws, RESPONSE, position + lane, work.lanes[1], lane)
                if not randomise_row(draws, position + lane, tables, levels[row], work.row):
                    return row
            row += 1
    return rows


@kernel
def draw_coin(draws: Draws, position: Int, rate: NDArray[np.uint32], whole: Bool) -> Int:
    """Return 1 with the probability whose binary digits are `rate`, else 0; UNDECIDED if more digits are needed.

    `whole`: the digits are complete. A fraction that starts with them is then not below the rate.
    """
    for word in range(rate.size):
        mine = next_word(draws, SAMPLE, position)
        if mine != rate[word]:
            return 1 if mine < rate[word] else 0
    return 0 if whole else UNDECIDED


@entry_kernel
def sample_rows(
    draws: Draws,
    first_position: Int,
    rate: Words,
    whole: Bool,
    keep: Flags,
    work: Work,
) -> Int:
    """Flip the coin of every row; return the number of rows processed. If not all, the next one is undecided.

    A coin does not read its row, so its address is the position alone.
    """
    lanes = work.lanes[0]
    rows = keep.size
    row = 0
    while row < rows:
        position = first_position + row
        advance_key(draws, position)
        together = min(LANES, rows - row, RATCHET - (position - draws.position[0]))
        address_positions(SAMPLE, position, work.nonces)
        chacha_lanes(draws.words[0], work.nonces, lanes)
        for lane in range(together):
            begin_event(draws)
            use_lane(draws, SAMPLE, position + lane, lanes, lane)
            coin = draw_coin(draws, position + lane, rate, whole)
            if coin == UNDECIDED:
                return row
            keep[row] = coin == 1
            row += 1
    return rows
