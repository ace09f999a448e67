"""A snapshot restored twice: the same rows get the same noise, and other rows share no draw with them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg

Rows = list[dict[str, Any]]
TRIALS = 25
CODES = [f"c{code}" for code in range(40)]
SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("age", lower=0, upper=1_000_000, step=1)],
    sensitive=[cg.Sensitive("code", values=CODES)],
)


def rows_of(ages: Sequence[int], codes: Sequence[str], first: int = 0) -> Rows:
    pairs = enumerate(zip(ages, codes, strict=True))
    return [{"pid": first + at, "age": age, "code": code} for at, (age, code) in pairs]


def some_rows(count: int, *, age: int = 500_000, code: str = "c1", first: int = 0) -> Rows:
    return rows_of([age] * count, [code] * count, first)


def edge(blob: bytes | None = None) -> cg.Randomiser:
    if blob is None:
        return cg.Randomiser(SCHEMA, epsilon=14.0, weights={"age": 12, "code": 2})
    return cg.Randomiser.restore(SCHEMA, blob, epsilon=14.0, weights={"age": 12, "code": 2})


def test_randomiser_shares_no_noise_between_two_restores() -> None:
    """With shared noise the difference of two outputs would be the exact difference of the rows."""
    exact = 0
    for _ in range(TRIALS):
        first = edge()
        first.randomise(some_rows(3))
        blob = first.snapshot()
        (one,) = edge(blob).randomise(some_rows(1, age=400_000)).column("age").to_pylist()
        (other,) = edge(blob).randomise(some_rows(1, age=600_000)).column("age").to_pylist()
        exact += other - one == 200_000
    assert exact == 0


@pytest.mark.parametrize("changed", ["age", "code"])
def test_row_that_differs_in_one_column_gets_other_noise_in_all(changed: str) -> None:
    blob = edge().snapshot()
    rows = some_rows(200)
    other = [{**row, changed: {"age": 500_001, "code": "c2"}[changed]} for row in rows]
    ages, codes = (edge(blob).randomise(rows).column(name).to_pylist() for name in ("age", "code"))
    ages2, codes2 = (edge(blob).randomise(other).column(name).to_pylist() for name in ("age", "code"))
    shift = other[0]["age"] - rows[0]["age"]
    inside = [(b - a) == shift for a, b in zip(ages, ages2, strict=True) if {a, b}.isdisjoint({0, 1_000_000})]
    assert len(inside) > 50
    assert sum(inside) == 0  # two draws are equal by chance with probability 10^-5
    kept, kept2 = ([code == row["code"] for code, row in zip(found, given, strict=True)]
                   for found, given in ((codes, rows), (codes2, other)))  # fmt: skip
    assert kept != kept2


def test_equal_rows_replay_equally_in_any_batching() -> None:
    blob = edge().snapshot()
    rows = some_rows(50)
    whole = edge(blob).randomise(rows)
    pieces = edge(blob)
    cut = pa.concat_tables([pieces.randomise(rows[at : at + 7]) for at in range(0, 50, 7)])
    assert cut == whole
    # A different row does not change the noise of any other.
    other = edge(blob).randomise([*rows[:20], {**rows[20], "age": 1}, *rows[21:]])
    assert other.slice(0, 20) == whole.slice(0, 20)
    assert other.slice(21) == whole.slice(21)


def strict() -> cg.Castleguard:
    return cg.Castleguard(k=2, delay=10, epsilon=4.0, order="input", max_clusters=1, weights={"age": 0.01, "code": 1})


def codes_after(blob: bytes, rows: Rows) -> list[str]:
    """Return the published codes of these rows: all rows, in input order."""
    stream = cg.Anonymiser.restore(SCHEMA, strict(), blob)
    table = pa.concat_tables([stream.push(rows), stream.flush()])
    codes: list[str] = table.column("code").to_pylist()[-len(rows) :]
    return codes


def test_strict_castleguard_shares_no_noise_between_two_restores() -> None:
    """With shared noise the same rows would keep their values, for any values."""
    first = cg.Anonymiser(SCHEMA, strict())
    first.push(some_rows(30))
    blob = first.snapshot()
    kept = []
    for code in ("c1", "c1", "c2"):
        found = codes_after(blob, some_rows(200, code=code, first=100))
        kept.append([mine == code for mine in found])
    assert kept[0] == kept[1]
    assert 10 < sum(kept[0]) < 190
    # Both coins are so balanced that equal patterns are practically impossible.
    agree = np.mean(np.array(kept[0]) == np.array(kept[2]))
    assert agree < 0.9


NUMBERS = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("x", lower=0, upper=1000), cg.Numeric("y", lower=0, upper=1000)],
)


def paper_values(blob: bytes, rows: Rows) -> list[tuple[float, float]]:
    """Publish rows with CASTLEGUARD as published: every box is one row's noisy point."""
    policy = cg.Castleguard(k=2, delay=1, phi=5, mode="paper", suppression="generalise")
    stream = cg.Anonymiser.restore(NUMBERS, policy, blob)
    noisy: list[tuple[float, float]] = []
    perturbation: Any = stream._intake._perturbation
    apply: Callable[..., Any] = perturbation.apply

    def watched(*args: Any) -> Any:
        changed = apply(*args)
        noisy.extend((float(x), float(y)) for x, y in changed.quasi)
        return changed

    perturbation.apply = watched
    stream.push(rows)
    return noisy


def test_paper_noise_depends_on_the_row_and_on_the_ranges_that_scale_it() -> None:
    policy = cg.Castleguard(k=2, delay=1, phi=5, mode="paper", suppression="generalise")
    first = cg.Anonymiser(NUMBERS, policy)
    first.push([{"pid": 0, "x": 400, "y": 400}, {"pid": 1, "x": 600, "y": 600}])
    blob = first.snapshot()
    row, wide = {"pid": 2, "x": 500, "y": 500}, {"pid": 3, "x": 0, "y": 1000}
    (once,), (again,) = (paper_values(blob, [row]) for _ in range(2))
    assert once == again
    (other,) = paper_values(blob, [{**row, "x": 510}])
    assert other[0] - once[0] != pytest.approx(10)
    assert other[1] != once[1]
    # The same row at the same position with another history: from one draw, one noise would be five times the other.
    _, narrow_last = paper_values(blob, [row, row])
    _, wide_last = paper_values(blob, [wide, row])
    assert wide_last[0] - 500 != pytest.approx(5 * (narrow_last[0] - 500))


def test_labels_of_paper_doca_share_no_noise_between_two_restores() -> None:
    schema = cg.Schema(
        person="pid",
        quasi_identifiers=[cg.Numeric("x", lower=0, upper=1000)],
        sensitive=[cg.Sensitive("code", values=CODES)],
    )
    policy = cg.Doca(epsilon=6.0, delay=3, mode="paper", sensitivity={"x": 1000.0})
    blob = cg.Anonymiser(schema, policy).snapshot()
    kept = []
    for code in ("c1", "c1", "c2"):
        stream = cg.Anonymiser.restore(schema, policy, blob)
        rows = [{"pid": at, "x": at, "code": code} for at in range(200)]
        table = pa.concat_tables([stream.push(rows), stream.flush()])
        kept.append([mine == code for mine in table.column("code").to_pylist()])
    assert kept[0] == kept[1]
    assert np.mean(np.array(kept[0]) == np.array(kept[2])) < 0.9


def test_means_of_paper_doca_share_no_noise_between_two_restores() -> None:
    schema = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("x", lower=0, upper=1000)])
    policy = cg.Doca(epsilon=1000.0, delay=3, mode="paper", sensitivity={"x": 1000.0}, max_clusters=1)
    blob = cg.Anonymiser(schema, policy).snapshot()

    def means(shift: float) -> list[float]:
        stream = cg.Anonymiser.restore(schema, policy, blob)
        table = stream.push([{"pid": at, "x": 500 + 10 * at + shift} for at in range(8)])
        values: list[float] = table.column("x").to_pylist()
        assert len(values) == 8
        return values

    assert means(0) == means(0)
    differences = np.array(means(1)) - np.array(means(0))
    assert not np.isclose(differences, 1).any()


PLACES = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=10)], public=["number"])


@pytest.mark.parametrize("policy", [cg.Castle(k=40, delay=60), cg.Doca(epsilon=1e5, k=2, delay=40)])
def test_order_of_a_release_depends_on_its_rows(policy: cg.Castle | cg.Doca) -> None:
    """With other rows at the same positions, the k rows of a release are shuffled differently."""
    schema = PLACES if isinstance(policy, cg.Castle) else cg.Schema(
        person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=1)]
    )  # fmt: skip
    blob = cg.Anonymiser(schema, policy).snapshot()

    def order(shift: int) -> list[Any]:
        stream = cg.Anonymiser.restore(schema, policy, blob)
        rows = [{"pid": at, "age": at + shift, "number": at} for at in range(40)]
        table = pa.concat_tables([stream.push(rows), stream.flush()])
        if "number" in table.column_names:
            return list(table.column("number").to_pylist())
        return list(np.argsort(table.column("age").to_numpy(), kind="stable"))

    assert order(0) == order(0)
    assert order(0) != order(1)
