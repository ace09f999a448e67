"""The coin of SDGS: exact, and addressed by the row, so other rows and the order of arrival never change it."""

from fractions import Fraction

import numpy as np
import pytest

import castleguard as cg
from castleguard.intake.window_coin import WindowCoin
from castleguard.privacy.mechanisms import Bernoulli
from castleguard.schema.coded import CodedRows
from tests.reference.window_coin import takes_part

KEY = np.arange(8, dtype=np.uint32) * np.uint32(0x1234567)
RATES = [Fraction(1, 2), Fraction(1, 3), Fraction(3, 8), Fraction("0.6")]


def rows_of(count: int, seed: int = 0, *, sensitive: int = 2) -> CodedRows:
    draw = np.random.default_rng(seed)
    return CodedRows(
        quasi=draw.integers(0, 100, (count, 3)).astype(np.float64),
        person=draw.integers(0, 2**64, count, dtype=np.uint64),
        sensitive=draw.integers(0, 5, (count, sensitive)),
        to_root=draw.random(count) < 0.1,
    )


def coin(rate: Fraction = RATES[0], **more: int) -> WindowCoin:
    return WindowCoin(Bernoulli(rate=rate), key=KEY, window_at=lambda now: int(now // 60), **more)


def flip(rows: CodedRows, now: float = 0.0, rate: Fraction = RATES[0], **more: int) -> list[bool]:
    flags: list[bool] = coin(rate, **more).flip(rows, now, np.ones(rows.person.size, dtype=np.bool_)).tolist()
    return flags


@pytest.mark.parametrize("rate", RATES)
def test_every_coin_equals_that_of_the_reference(rate: Fraction) -> None:
    rows = rows_of(60)
    expected = [
        takes_part(KEY.tobytes(), 7, int(person), quasi.tolist(), sensitive.tolist(), bool(to_root), rate)
        for quasi, person, sensitive, to_root in zip(*rows, strict=True)
    ]
    assert flip(rows, 425.0, rate) == expected


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("words", [0, 1, 16])
def test_the_number_of_words_compared_at_first_changes_nothing(rate: Fraction, words: int) -> None:
    rows = rows_of(200)
    assert flip(rows, rate=rate, words=words) == flip(rows, rate=rate)


@pytest.mark.compiled
@pytest.mark.parametrize("rate", RATES)
def test_the_share_of_kept_rows_is_the_rate(rate: Fraction) -> None:
    kept = sum(flip(rows_of(40_000), rate=rate))
    assert abs(kept - 40_000 * rate) < 5 * (40_000 * rate * (1 - rate)) ** 0.5


def test_neither_order_nor_batches_nor_other_rows_change_a_coin() -> None:
    rows, order = rows_of(300), np.random.default_rng(1).permutation(300)
    whole = np.array(flip(rows))
    assert flip(rows.take(order)) == whole[order].tolist()
    one = coin()
    pieces = [rows.take(slice(at, at + 7)) for at in range(0, 300, 7)]
    assert (
        np.concatenate([one.flip(piece, 30.0, np.ones(piece.person.size, dtype=np.bool_)) for piece in pieces]).tolist()
        == whole.tolist()
    )


def test_a_row_that_is_left_out_before_stays_out() -> None:
    rows = rows_of(300)
    present = np.arange(300) % 2 == 0
    assert coin().flip(rows, 0.0, present).tolist() == (present & flip(rows)).tolist()


@pytest.mark.compiled
@pytest.mark.parametrize("other", ["person", "quasi", "sensitive", "to_root", "window"])
def test_another_row_has_another_coin(other: str) -> None:
    """A snapshot restored twice, with different rows, has independent coins: about half of them agree by chance."""
    rows = rows_of(4000)
    changed = rows
    if other != "window":
        column = getattr(rows, other)
        changed = rows._replace(**{other: ~column if other == "to_root" else column + column.dtype.type(1)})
    now = 60.0 if other == "window" else 0.0
    agreeing = np.mean(np.array(flip(rows)) == np.array(flip(changed, now)))
    assert abs(agreeing - 0.5) < 0.05


def test_minus_zero_is_zero() -> None:
    rows = rows_of(100)
    rows.quasi[:] = 0.0
    assert flip(rows._replace(quasi=-rows.quasi)) == flip(rows)


def test_no_rows_and_rows_without_sensitive_columns_are_accepted() -> None:
    assert len(flip(rows_of(10, sensitive=0))) == 10
    assert flip(rows_of(0)) == []


def test_stream_samples_the_same_persons_after_any_rows() -> None:
    """One more row, and rows in another order: the same persons are sampled."""
    schema = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)])
    policy = cg.Sdgs(k=2, sample_rate=0.5, epsilon=1, window=60)
    people = [{"pid": at, "age": at % 100} for at in range(50)]
    published = []
    for rows in (people, [{"pid": "extra", "age": 7}, *people[::-1]]):
        stream = cg.Anonymiser(schema, policy, seed=5)
        for row in rows:
            stream.push([row], now=10.0)
        published.append(stream.tick(60.0).num_rows)
    assert published[1] - published[0] in (0, 1)
