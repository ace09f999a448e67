"""The draws against RFC 8439 and against the plain twin that the transcriptions draw from."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.kernels import chacha
from castleguard.kernels.chacha import PURPOSES, RATCHET, Draws, begin_event, chacha_block, new_words, pick, ratchet
from castleguard.kernels.compile import entry_kernel
from tests.reference import chacha as reference

Words = NDArray[np.uint32]
Ints = NDArray[np.int64]

RFC_KEY = tuple(range(0x03020100, 0x20000000, 0x04040404))  # bytes 00 .. 1f
words = st.integers(0, 2**32 - 1)
keys = st.tuples(*[words] * 8)
positions = st.integers(0, 2**20) | st.integers(0, 2**40)


@entry_kernel
def write_block(key: Words, address: Ints, out: Words) -> None:
    """Let Python see one block: kernels can be called by kernels only."""
    chacha_block(key, address[0], address[1], address[2], address[3], out)


@entry_kernel
def make_draws(draws: Draws, asked: Ints, answers: Ints) -> None:
    """Answer rows of (purpose, position, choices); one without choices begins an event, and may change the key."""
    for at in range(answers.size):
        if asked[at, 2] == 0:
            begin_event(draws)
            ratchet(draws, asked[at, 1])
        else:
            answers[at] = pick(draws, asked[at, 0], asked[at, 1], asked[at, 2])


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


def test_the_block_is_that_of_rfc_8439() -> None:
    """Section 2.3.2: key 00..1f, block counter 1, nonce 00:00:00:09:00:00:00:4a:00:00:00:00."""
    out = block(RFC_KEY, 1, 0x09000000, 0x4A000000, 0)
    assert " ".join(f"{word:08x}" for word in out) == (
        "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3 "
        "466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2"
    )


@given(keys, words, st.tuples(words, words, words))
def test_any_block_is_that_of_the_twin(key: tuple[int, ...], counter: int, nonce: tuple[int, int, int]) -> None:
    assert block(key, counter, *nonce) == list(reference.block(key, counter, nonce))


def test_purposes_have_the_numbers_that_the_twin_gives_them() -> None:
    renamed = {"ratchet": "ratchet_key"}
    assert {name: getattr(chacha, renamed.get(name, name).upper()) for name in reference.PURPOSES} == reference.PURPOSES


@given(keys, st.integers(1, 7), positions, st.lists(st.integers(1, 2**31 - 1), max_size=40))
def test_picks_are_those_of_the_twin(key: tuple[int, ...], purpose: int, position: int, choices: list[int]) -> None:
    twin = reference.Draws(key)
    twin.ratchet(position)  # as the event that begins there does
    name = next(name for name, number in reference.PURPOSES.items() if number == purpose)
    expected = [reference.choose(twin, name, position, n) for n in choices]
    assert draw(key, [(purpose, position, 0), *((purpose, position, n) for n in choices)])[1:] == expected


def test_a_draw_is_the_same_whatever_was_drawn_before() -> None:
    alone = draw(RFC_KEY, [(1, 5, 0), (1, 5, 1000)])[-1]
    after_others = draw(RFC_KEY, [(1, 3, 0), (1, 3, 1000), (2, 3, 9), (1, 5, 0), (3, 5, 7), (1, 5, 1000)])[-1]
    again = draw(RFC_KEY, [(1, 5, 0), (1, 5, 1000), (1, 5, 1000), (1, 5, 0), (1, 5, 1000)])[-1]
    assert alone == after_others == again


def test_the_key_changes_at_multiples_of_the_ratchet_and_nothing_of_the_old_one_is_left() -> None:
    state = np.full((3, PURPOSES), -1, dtype=np.int64)
    draws = Draws(new_words(np.array(RFC_KEY, dtype=np.uint32)), state[0], state[1], state[2])
    asked = [(1, 9, 0), (1, 9, 1000), (1, RATCHET - 1, 0), (1, RATCHET, 0)]
    make_draws(draws, np.array(asked, dtype=np.int64), np.zeros(len(asked), dtype=np.int64))
    new_key = reference.block(RFC_KEY, 0, (reference.PURPOSES["ratchet"], RATCHET, 0))[:8]
    assert tuple(int(word) for word in draws.words[0, :8]) == new_key
    assert not draws.words[1:].any()
    assert (draws.position[1:] == -1).all()
