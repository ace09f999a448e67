"""Randomiser: local noise at the edge."""

import datetime as dt

import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.errors import PolicyError, SchemaError, SnapshotError

SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[
        cg.Numeric("age", lower=0, upper=100, step=1),
        cg.Numeric("born", lower=dt.date(1950, 1, 1), upper=dt.date(2000, 1, 1), step=365),
        cg.Categorical("sex", hierarchy=cg.Hierarchy.flat(["f", "m"]), default="m"),
    ],
    sensitive=[cg.Sensitive("job", values=["cook", "nurse"]), cg.Sensitive("fare", bins=[10, 20])],
    public=["clinic"],
)
ROW = {
    "pid": "a", "age": 30, "born": dt.date(1990, 5, 5), "sex": "f", "job": "cook", "fare": 12.5, "clinic": "east",
    "secret": "x",
}  # fmt: skip
EXACT = 100_000.0  # an epsilon so large that no value changes


def test_rows_keep_their_columns_order_and_number() -> None:
    out = cg.Randomiser(SCHEMA, epsilon=1.0).randomise([ROW] * 50)
    assert out.column_names == ["pid", "age", "born", "sex", "job", "fare", "clinic"]
    assert out.num_rows == 50
    assert set(out["clinic"].to_pylist()) == {"east"}
    assert set(out["pid"].to_pylist()) == {"a"}
    assert len(set(out["age"].to_pylist())) > 2


def test_values_are_published_on_the_public_grid() -> None:
    (row,) = cg.Randomiser(SCHEMA, phi=EXACT).randomise([ROW]).to_pylist()
    assert row == {
        "pid": "a",
        "age": 30,
        "born": dt.date(1989, 12, 22),
        "sex": "f",
        "job": "cook",
        "fare": "[10, 20)",
        "clinic": "east",
    }


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"age": None}, ("age", 50)),
        ({"age": "old"}, ("age", 50)),
        ({"age": 1e9}, ("age", 100)),
        ({"sex": "?"}, ("sex", "m")),
        ({"sex": None}, ("sex", "m")),
        ({"job": "spy"}, ("job", None)),
        ({"job": None}, ("job", None)),
        ({"fare": "free"}, ("fare", None)),
        ({"born": "long ago"}, ("born", dt.date(1974, 12, 26))),
    ],
)
def test_unreadable_value_becomes_the_public_default(changed: dict[str, object], expected: tuple[str, object]) -> None:
    (row,) = cg.Randomiser(SCHEMA, phi=EXACT).randomise([{**ROW, **changed}]).to_pylist()
    name, value = expected
    assert row[name] == value


def test_repeated_row_gets_fresh_noise() -> None:
    randomiser = cg.Randomiser(SCHEMA, epsilon=1.0, seed=1)
    assert randomiser.randomise([ROW] * 20) != randomiser.randomise([ROW] * 20)


def test_batching_does_not_change_the_rows_of_a_seed() -> None:
    whole = cg.Randomiser(SCHEMA, epsilon=1.0, seed=1).randomise([ROW] * 20)
    other = cg.Randomiser(SCHEMA, epsilon=1.0, seed=1)
    assert pa.concat_tables([other.randomise([ROW] * 7), other.randomise([ROW] * 13)]) == whole


def test_restored_randomiser_draws_the_same_noise() -> None:
    one = cg.Randomiser(SCHEMA, epsilon=1.0)
    one.randomise([ROW] * 5)
    other = cg.Randomiser.restore(SCHEMA, one.snapshot(), epsilon=1.0)
    assert other.randomise([ROW] * 20) == one.randomise([ROW] * 20)
    assert not other.guarantee().privacy.void  # type: ignore[union-attr]


def test_snapshot_of_other_parameters_is_refused() -> None:
    blob = cg.Randomiser(SCHEMA, epsilon=1.0).snapshot()
    with pytest.raises(SnapshotError, match=r"another randomiser: epsilon\.age"):
        cg.Randomiser.restore(SCHEMA, blob, epsilon=2.0)


def test_guarantee_has_the_total_epsilon_and_names_unchanged_columns() -> None:
    privacy = cg.Randomiser(SCHEMA, phi=0.5).guarantee().privacy
    assert privacy is not None
    assert privacy.epsilon == pytest.approx(2.5)
    assert privacy.covered == ("age", "born", "sex", "job", "fare")
    assert privacy.uncovered[1:] == ("pid", "clinic")
    assert not privacy.void
    assert cg.Randomiser(SCHEMA, phi=0.5, seed=1).guarantee().privacy.void  # type: ignore[union-attr]


def test_randomiser_needs_public_values_and_a_budget() -> None:
    with pytest.raises(PolicyError, match="give either epsilon"):
        cg.Randomiser(SCHEMA)
    with pytest.raises(SchemaError, match="needs declared values"):
        cg.Randomiser(
            cg.Schema(person="p", quasi_identifiers=[cg.Numeric("a", lower=0, upper=1)], sensitive=["s"]), phi=1
        )
