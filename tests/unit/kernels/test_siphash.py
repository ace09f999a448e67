"""SipHash-2-4 agrees with its authors' vectors and a plain twin, and equal text has equal hashes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.kernels.siphash import hash_integers, hash_strings
from tests.reference.siphash import WORD
from tests.reference.siphash import siphash as twin

KEY = np.frombuffer(bytes(range(16)), dtype="<u8").copy()

# The hashes of 00, 00 01, 00 01 02, ... under the key 00 .. 0f, as the authors' reference code lists them; the one of
# 15 bytes is also in the appendix of the paper.
PUBLISHED = {
    0: 0x726FDB47DD0E0E31,
    1: 0x74F839C593DC67FD,
    2: 0x0D6C8009D9A94F5A,
    3: 0x85676696D7FB7E2D,
    8: 0x93F5F5799A932462,
    15: 0xA129CA6149BE45E5,
}


def hash_texts(texts: list[bytes | None], key: np.ndarray = KEY) -> list[int]:
    offsets = np.cumsum([0] + [len(text or b"") for text in texts], dtype=np.int64)
    data = np.frombuffer(b"".join(text or b"" for text in texts), dtype=np.uint8).copy()
    valid = np.array([text is not None for text in texts], dtype=np.bool_)
    return [int(code) for code in hash_strings(data, offsets, valid, key)]


@pytest.mark.parametrize(("length", "code"), PUBLISHED.items())
def test_hashes_match_the_published_vectors(length: int, code: int) -> None:
    assert hash_texts([bytes(range(length))]) == [code]


@given(st.lists(st.none() | st.binary(max_size=40), max_size=8), st.tuples(*[st.integers(0, WORD)] * 2))
def test_text_hashes_match_the_twin(texts: list[bytes | None], key: tuple[int, int]) -> None:
    hashes = hash_texts(texts, np.array(key, dtype=np.uint64))
    assert hashes == [twin(b"\xff" if text is None else text, key) for text in texts]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=8))
def test_an_integer_hashes_as_its_decimal_digits(numbers: list[int | None]) -> None:
    numbers += [0, -1, 2**63 - 1, -(2**63)]
    values = np.array([number or 0 for number in numbers], dtype=np.int64)
    valid = np.array([number is not None for number in numbers], dtype=np.bool_)
    digits = [None if number is None else str(number).encode() for number in numbers]
    assert [int(code) for code in hash_integers(values, valid, KEY)] == hash_texts(digits)


def test_a_missing_value_hashes_unlike_any_text() -> None:
    missing, empty, nan = hash_texts([None, b"", b"nan"])
    assert len({missing, empty, nan}) == 3
