"""Roles: the meaning of declarations, and invalid ones."""

import datetime as dt
import json
from collections.abc import Callable

import numpy as np
import pytest

from castleguard.errors import SchemaError
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive

SEX = Hierarchy.flat(["f", "m"])
AGE = Numeric("age", lower=0, upper=100)


def test_a_number_has_a_domain_a_grid_and_a_kind() -> None:
    age = Numeric("age", lower=0, upper=100, step=25)
    assert (age.kind, age.domain, age.integral) == ("number", (0.0, 100.0), True)
    assert age.edges.tolist() == [0, 25, 50, 75, 100]
    assert age.edges is age.edges


def test_a_date_and_a_timestamp_are_coded_since_1970() -> None:
    born = Numeric("born", lower=dt.date(1970, 1, 11), upper=dt.date(1971, 1, 1))
    assert (born.kind, born.domain, born.integral) == ("date", (10.0, 365.0), False)
    seen = Numeric("seen", lower=dt.datetime(1970, 1, 1), upper=dt.datetime(1970, 1, 2))
    assert (seen.kind, seen.domain, seen.integral) == ("timestamp", (0.0, 86_400_000_000.0), False)


def test_a_number_without_a_domain_is_observed() -> None:
    free = Numeric("age")
    assert (free.kind, free.domain, free.edges.size, free.integral) == ("number", None, 0, False)


def test_fractional_edges_are_not_integral() -> None:
    assert not Numeric("x", lower=0, upper=1, step=0.5).integral
    assert Numeric("x", lower=0.0, upper=200.0).integral


def test_edges_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        AGE.edges[0] = -1


def test_numpy_bounds_become_python_numbers() -> None:
    assert Numeric("age", lower=np.int64(0), upper=np.int32(100)) == AGE  # type: ignore[arg-type]


def test_a_grid_as_fine_as_the_data_hides_nothing() -> None:
    ages = np.array([17.0, 34.0, 61.0])
    assert Numeric("age", lower=0, upper=100, step=1).hides_nothing(ages)
    assert Numeric("age", lower=0, upper=100, step=0.5).hides_nothing(ages)
    assert not Numeric("age", lower=0, upper=100, step=2).hides_nothing(ages)
    assert not Numeric("age", lower=0, upper=100, step=1).hides_nothing(np.array([17.25, 34.0, 34.5]))
    assert Numeric("gain", lower=0, upper=100_000).hides_nothing(np.array([0.0, 5000.0, 15000.0]))


def test_a_constant_column_has_no_resolution() -> None:
    assert not AGE.hides_nothing(np.array([3.0, 3.0]))


def test_an_observed_domain_hides_nothing() -> None:
    assert Numeric("age").hides_nothing(np.array([1.5]))


def refusal_of(make: Callable[[], object]) -> str:
    with pytest.raises(SchemaError) as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Numeric("age", lower=0), "column 'age': give both lower and upper, or neither"),
        (lambda: Numeric("age", step=1), "column 'age': step needs lower and upper"),
        (lambda: Numeric("age", lower=9, upper=1), "column 'age': lower must not be above upper, got 9 and 1"),
        (lambda: Numeric("", lower=0, upper=1), "a column name must be a non-empty string"),
        (lambda: Numeric(5, lower=0, upper=1), "a column name must be a non-empty string, got 5"),  # type: ignore[arg-type]
        (lambda: Numeric("age", lower=0, upper=1, null="drop"), "null must be 'reject' or 'root', got 'drop'"),  # type: ignore[arg-type]
        (lambda: Numeric("age", lower=0, upper=1, invalid="clamp"), "invalid must be 'reject' or 'root', got 'clamp'"),  # type: ignore[arg-type]
        (lambda: Numeric("age", lower=0, upper=1, outside="x"), "outside must be 'clamp' or 'reject' or 'root'"),  # type: ignore[arg-type]
        (lambda: Categorical("sex", hierarchy="sex.csv"), "must be a Hierarchy (from_csv, from_mapping or flat)"),
        (lambda: Categorical("sex", hierarchy=SEX, unknown="clamp"), "unknown must be 'reject' or 'root'"),  # type: ignore[arg-type]
        (lambda: Sensitive("fare", bins=[]), "bins needs at least one edge"),
        (lambda: Sensitive("fare", bins=[1, 1]), "bins must be sorted"),
        (lambda: Sensitive("fare", bins=[2, 1]), "bins must be sorted"),
        (lambda: Sensitive("fare", bins="12"), "bins must be a list of edges"),  # type: ignore[arg-type]
        (lambda: Sensitive("fare", bins=[1, dt.date(2020, 1, 1)]), "edges of one kind"),
        (lambda: Sensitive("fare", bins=[float("nan")]), "column 'fare': bins: a bound must be finite"),
    ],
)  # fmt: skip
def test_an_invalid_declaration_is_refused(make: Callable[[], object], message: str) -> None:
    assert message in refusal_of(make)


def test_bins_are_coded_edges() -> None:
    fare = Sensitive("fare", bins=[0, 10, 20])
    assert fare.edges is not None
    assert fare.edges.tolist() == [0, 10, 20]
    assert Sensitive("fare").edges is None
    born = Sensitive("born", bins=[dt.date(1970, 1, 2)])
    assert born.kind == "date"
    assert born.edges is not None
    assert born.edges.tolist() == [1]


def test_roles_are_frozen_and_comparable() -> None:
    assert Sensitive("fare", bins=[1, 2]) == Sensitive("fare", bins=(1, 2))
    assert hash(AGE) == hash(Numeric("age", lower=0, upper=100))
    with pytest.raises(AttributeError):
        AGE.lower = 5  # type: ignore[misc]
    schema = Schema(person=None, quasi_identifiers=[AGE])
    with pytest.raises(AttributeError):
        schema.person = "x"  # type: ignore[misc]


def test_a_schema_lists_the_columns_it_reads() -> None:
    sex = Categorical("sex", hierarchy=SEX)
    schema = Schema(person="pid", quasi_identifiers=[AGE, sex], sensitive=["job", Sensitive("fare")], public=["vendor"])
    assert schema.columns == ("pid", "age", "sex", "job", "fare", "vendor")
    assert schema.sensitive == (Sensitive("job"), Sensitive("fare"))
    assert schema.public == ("vendor",)
    assert Schema(person=None, quasi_identifiers=[AGE]).columns == ("age",)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schema(person="p", quasi_identifiers=[]), "at least one quasi-identifier"),
        (lambda: Schema(person="", quasi_identifiers=[AGE]), "a column name must be a non-empty string"),
        (lambda: Schema(person="p", quasi_identifiers=["age"]), "must be Numeric or Categorical, got str"),  # type: ignore[list-item]
        (lambda: Schema(person="p", quasi_identifiers=AGE), "quasi_identifiers must be a list, got Numeric"),  # type: ignore[arg-type]
        (lambda: Schema(person="p", quasi_identifiers=[AGE], sensitive="job"), "sensitive must be a list, got str"),
        (lambda: Schema(person="p", quasi_identifiers=[AGE], sensitive=[5]), "must be a name or Sensitive, got int"),  # type: ignore[list-item]
        (lambda: Schema(person="p", quasi_identifiers=[AGE], public="job"), "public must be a list, got str"),
        (lambda: Schema(person="p", quasi_identifiers=[AGE], public=[""]), "a column name must be a non-empty string"),
        (lambda: Schema(person="age", quasi_identifiers=[AGE]), "'age' is declared twice"),
        (lambda: Schema(person="p", quasi_identifiers=[AGE, AGE]), "'age' is declared twice"),
        (lambda: Schema(person="p", quasi_identifiers=[AGE], sensitive=["x"], public=["x"]), "'x' is declared twice"),
        (lambda: Schema(person="p", quasi_identifiers=[AGE], public=["age_min"]), "both be published as 'age_min'"),
        (
            lambda: Schema(person="p", quasi_identifiers=[AGE, Numeric("age_max", lower=0, upper=1)]),
            "both be published as 'age_max'",
        ),
    ],
)  # fmt: skip
def test_an_invalid_schema_is_refused(make: Callable[[], object], message: str) -> None:
    assert message in refusal_of(make)


def test_the_person_column_may_share_a_published_name() -> None:
    assert Schema(person="age_min", quasi_identifiers=[AGE]).person == "age_min"


def schema_of(**changes: object) -> Schema:
    parts: dict[str, object] = {
        "person": "pid",
        "quasi_identifiers": [AGE, Categorical("sex", hierarchy=SEX)],
        "sensitive": [Sensitive("fare", bins=[1, 2])],
        "public": ["vendor"],
    }
    return Schema(**(parts | changes))  # type: ignore[arg-type]


def test_equal_schemas_have_equal_fingerprints_that_survive_json() -> None:
    first, second = schema_of().fingerprint(), schema_of().fingerprint()
    assert first == second == json.loads(json.dumps(first))


@pytest.mark.parametrize(
    "changes",
    [
        {"person": None},
        {"public": []},
        {"sensitive": ["fare"]},
        {"sensitive": [Sensitive("fare", bins=[1, 3])]},
        {"quasi_identifiers": [AGE]},
        {"quasi_identifiers": [Categorical("sex", hierarchy=SEX), AGE]},
        {"quasi_identifiers": [AGE, Categorical("sex", hierarchy=Hierarchy.flat(["m", "f"]))]},
        {"quasi_identifiers": [AGE, Categorical("sex", hierarchy=SEX, unknown="root")]},
        {"quasi_identifiers": [Numeric("age", lower=0, upper=100, step=2), Categorical("sex", hierarchy=SEX)]},
        {"quasi_identifiers": [Numeric("age", lower=0, upper=100, outside="root"), Categorical("sex", hierarchy=SEX)]},
        {"quasi_identifiers": [Numeric("age"), Categorical("sex", hierarchy=SEX)]},
    ],
)
def test_any_difference_changes_the_fingerprint(changes: dict[str, object]) -> None:
    assert schema_of(**changes).fingerprint() != schema_of().fingerprint()


def test_the_same_domain_in_another_spelling_has_the_same_fingerprint() -> None:
    explicit = Numeric("age", lower=0.0, upper=100.0, step=1)
    changed = schema_of(quasi_identifiers=[explicit, Categorical("sex", hierarchy=SEX)])
    assert changed.fingerprint() == schema_of().fingerprint()
