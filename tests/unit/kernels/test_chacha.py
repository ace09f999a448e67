"""Draws agree with RFC 8439 and with the plain-Python twin used by the transcriptions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.kernels import chacha
from castleguard.kernels.arrays import Ints2
from castleguard.kernels.chacha import LANES, NOISE, PURPOSES, RATCHET, Draws, new_words
from castleguard.kernels.compile import entry_kernel
from castleguard.kernels.content import add_number, begin_digest, end_digest
from tests.reference import chacha as reference

Words = NDArray[np.uint32]
Ints = NDArray[np.int64]

RFC_KEY = tuple(range(0x03020100, 0x20000000, 0x04040404))  # bytes 00 .. 1f
words = st.integers(0, 2**32 - 1)
keys = st.tuples(*[words] * 8)
positions = st.integers(0, 2**20) | st.integers(0, 2**40)


@entry_kernel
def write_block(key: Words, address: Ints, out: Words) -> None:
    """Expose one block to Python, which can call entry kernels only."""
    chacha.chacha_block(key, address[0], address[1], address[2], address[3], out)


@entry_kernel
def make_draws(draws: Draws, asked: Ints2, answers: Ints) -> None:
    """Answer rows of (purpose, position, choices); a row without choices begins an event and may change the key."""
    for at in range(answers.size):
        if asked[at, 2] == 0:
            chacha.begin_event(draws)
            chacha.ratchet(draws, asked[at, 1])
        else:
            answers[at] = chacha.pick(draws, asked[at, 0], asked[at, 1], asked[at, 2])


@entry_kernel
def take_words(draws: Draws, position: int, nonces: Words, lanes: Words, taken: Words, again: Words) -> None:
    """Draw words in sequence, the first block from a lane; then the same words by address, in reverse."""
    chacha.advance_key(draws, position)
    chacha.begin_event(draws)
    chacha.address_positions(NOISE, position - LANES + 1, nonces)
    chacha.chacha_lanes(draws.words[0], nonces, lanes)
    chacha.use_lane(draws, NOISE, position, lanes, LANES - 1)
    for at in range(taken.size):
        taken[at] = chacha.next_word(draws, NOISE, position)
    for at in range(taken.size - 1, -1, -1):
        again[at] = chacha.word_at(draws, NOISE, position, at)


@entry_kernel
def write_lanes(key: Words, purpose: int, first: int, nonces: Words, lanes: Words) -> None:
    """Expose the blocks of LANES positions to Python."""
    chacha.address_positions(purpose, first, nonces)
    chacha.chacha_lanes(key, nonces, lanes)


@entry_kernel
def take_hiding_words(
    draws: Draws, position: int, content: Ints, digests: Ints, nonces: Words, lanes: Words, taken: Words, block: Words
) -> None:
    """Draw words addressed by content: in sequence, and the first block from a lane."""
    chacha.advance_key(draws, position)
    digest = begin_digest(draws)
    for at in range(content.size):
        digest = add_number(digest, content[at])
    for lane in range(LANES):
        digests[lane] = end_digest(digest, content.size)
    chacha.begin_content(draws, digests[0])
    for at in range(taken.size):
        taken[at] = chacha.next_word(draws, NOISE, position)
    chacha.address_contents(NOISE, position - LANES + 1, digests, nonces)
    chacha.chacha_lanes(draws.words[0], nonces, lanes)
    chacha.use_lane(draws, NOISE, position, lanes, LANES - 1)
    for at in range(block.size):
        block[at] = chacha.word_at(draws, NOISE, position, at)


def fresh(key: tuple[int, ...]) -> Draws:
    """Draws whose key starts at position 0."""
    state = np.full((3, PURPOSES), -1, dtype=np.int64)
    state[0, 0] = 0
    return Draws(new_words(np.array(key, dtype=np.uint32)), state[0], state[1], state[2])


def words_from(draws: Draws, position: int, count: int) -> list[int]:
    taken, again = np.zeros((2, count), dtype=np.uint32)
    nonces, lanes = np.zeros(3 * LANES, dtype=np.uint32), np.zeros(16 * LANES, dtype=np.uint32)
    take_words(draws, position, nonces, lanes, taken, again)
    assert taken.tolist() == again.tolist()
    return [int(word) for word in taken]


def block(key: tuple[int, ...], *address: int) -> list[int]:
    out = np.zeros(16, dtype=np.uint32)
    write_block(np.array(key, dtype=np.uint32), np.array(address, dtype=np.int64), out)
    return [int(word) for word in out]


def draw(key: tuple[int, ...], asked: list[tuple[int, int, int]]) -> list[int]:
    answers = np.zeros(len(asked), dtype=np.int64)
    state = np.full((3, PURPOSES), -1, dtype=np.int64)
    draws = Draws(new_words(np.array(key, dtype=np.uint32)), state[0], state[1], state[2])
    make_draws(draws, np.array(asked, dtype=np.int64).reshape(-1, 3), answers)
    return [int(answer) for answer in answers]


def test_block_matches_rfc_8439() -> None:
    """Section 2.3.2: key 00..1f, block counter 1, nonce 00:00:00:09:00:00:00:4a:00:00:00:00."""
    out = block(RFC_KEY, 1, 0x09000000, 0x4A000000, 0)
    assert " ".join(f"{word:08x}" for word in out) == (
        "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3 "
        "466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2"
    )


@given(keys, words, st.tuples(words, words, words))
def test_any_block_matches_the_twin(key: tuple[int, ...], counter: int, nonce: tuple[int, int, int]) -> None:
    assert block(key, counter, *nonce) == list(reference.block(key, counter, nonce))


def test_purpose_numbers_match_the_twin() -> None:
    renamed = {"ratchet": "ratchet_key"}
    assert {name: getattr(chacha, renamed.get(name, name).upper()) for name in reference.PURPOSES} == reference.PURPOSES


@given(keys, st.integers(1, 7), positions, st.lists(st.integers(1, 2**31 - 1), max_size=40))
def test_picks_match_the_twin(key: tuple[int, ...], purpose: int, position: int, choices: list[int]) -> None:
    twin = reference.Draws(key)
    twin.ratchet(position)
    name = next(name for name, number in reference.PURPOSES.items() if number == purpose)
    expected = [reference.choose(twin, name, position, n) for n in choices]
    assert draw(key, [(purpose, position, 0), *((purpose, position, n) for n in choices)])[1:] == expected


def test_a_draw_does_not_depend_on_earlier_draws() -> None:
    alone = draw(RFC_KEY, [(1, 5, 0), (1, 5, 1000)])[-1]
    after_others = draw(RFC_KEY, [(1, 3, 0), (1, 3, 1000), (2, 3, 9), (1, 5, 0), (3, 5, 7), (1, 5, 1000)])[-1]
    again = draw(RFC_KEY, [(1, 5, 0), (1, 5, 1000), (1, 5, 1000), (1, 5, 0), (1, 5, 1000)])[-1]
    assert alone == after_others == again


def test_the_ratchet_replaces_the_key_and_wipes_blocks_of_the_old_one() -> None:
    state = np.full((3, PURPOSES), -1, dtype=np.int64)
    draws = Draws(new_words(np.array(RFC_KEY, dtype=np.uint32)), state[0], state[1], state[2])
    asked = [(1, 9, 0), (1, 9, 1000), (1, RATCHET - 1, 0), (1, RATCHET, 0)]
    make_draws(draws, np.array(asked, dtype=np.int64), np.zeros(len(asked), dtype=np.int64))
    new_key = reference.block(RFC_KEY, 0, (reference.PURPOSES["ratchet"], RATCHET, 0))[:8]
    assert tuple(int(word) for word in draws.words[0, :8]) == new_key
    assert not draws.words[1:].any()
    assert (draws.position[1:] == -1).all()


@given(keys, st.integers(1, PURPOSES - 1), st.integers(0, 2**62) | st.integers(2**32 - LANES, 2**32))
def test_blocks_computed_together_match_single_blocks(key: tuple[int, ...], purpose: int, first: int) -> None:
    nonces, lanes = np.zeros(3 * LANES, dtype=np.uint32), np.zeros(16 * LANES, dtype=np.uint32)
    write_lanes(np.array(key, dtype=np.uint32), purpose, first, nonces, lanes)
    for lane in range(LANES):
        position = first + lane
        expected = reference.block(key, 0, (purpose, position & reference.WORD, position >> 32))
        assert tuple(lanes[lane::LANES].tolist()) == expected


@given(keys, st.integers(0, 2**20 - 1), st.integers(1, 70))
def test_words_match_the_twin(key: tuple[int, ...], position: int, count: int) -> None:
    twin = reference.Draws(key)
    assert words_from(fresh(key), position, count) == [twin.word("noise", position, at) for at in range(count)]


def hiding_words(draws: Draws, position: int, content: list[int], count: int) -> list[int]:
    """Words addressed by content."""
    taken, block = np.zeros(count, dtype=np.uint32), np.zeros(16, dtype=np.uint32)
    numbers, digests = np.array(content, dtype=np.int64), np.zeros(LANES, dtype=np.int64)
    nonces, lanes = np.zeros(3 * LANES, dtype=np.uint32), np.zeros(16 * LANES, dtype=np.uint32)
    take_hiding_words(draws, position, numbers, digests, nonces, lanes, taken, block)
    assert block.tolist()[:count] == taken.tolist()[:16]
    return [int(word) for word in taken]


numbers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)


@given(keys, positions, numbers, st.integers(1, 40))
def test_words_addressed_by_content_match_the_twin(
    key: tuple[int, ...], position: int, content: list[int], count: int
) -> None:
    twin = reference.Draws(key)
    for multiple in range(RATCHET, min(position, 3 * RATCHET) + 1, RATCHET):
        twin.ratchet(multiple)
    position = min(position, 3 * RATCHET)
    data = b"".join(number.to_bytes(8, "little", signed=True) for number in content)
    expected = [twin.word("noise", position, at, data) for at in range(count)]
    draws = fresh(key)
    assert hiding_words(draws, position, content, count) == expected
    # No block is reused from other content, or from a draw without content.
    assert hiding_words(draws, position, [*content, 0], 3) != expected[:3]
    assert words_from(draws, position, 3) == [twin.word("noise", position, at) for at in range(3)]
    assert hiding_words(draws, position, content, count) == expected


def test_the_key_depends_on_the_position_alone() -> None:
    twin = reference.Draws(RFC_KEY)
    for multiple in (RATCHET, 2 * RATCHET, 3 * RATCHET):
        twin.ratchet(multiple)
    last = 3 * RATCHET + 7
    expected = [twin.word("noise", last, at) for at in range(3)]
    for way in ([], [5], [RATCHET], [RATCHET - 1, RATCHET + 1, RATCHET + 1], [2 * RATCHET, 3 * RATCHET, 3 * RATCHET]):
        draws = fresh(RFC_KEY)
        for position in way:
            words_from(draws, position, 1)
        assert words_from(draws, last, 3) == expected
        assert draws.position[0] == 3 * RATCHET
