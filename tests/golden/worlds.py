"""Made-up schemas and rows. A schema is written as a job file has it, so that Python and YAML get the same one."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import castleguard as cg
from tests.golden.draws import Draws

Written = dict[str, Any]  # a section as YAML has it
Column = list[Any]

_ZONES = {"Any": {"North": {"Coast": ["Aal", "Bro"], "Hills": ["Cor", "Dun"]}, "South": ["Elm", "Fen", "Gor"]}}
_ZONE_LEAVES = ("Aal", "Bro", "Cor", "Dun", "Elm", "Fen", "Gor")
_JOBS = ["cook", "driver", "nurse", "smith", "tailor"]
_CODES = [1, 2, 3, 4, 5, 6]
_ILLNESSES = ["asthma", "cold", "flu", "gout", "measles"]
_ILLNESS_TREE = {"ill": {"lungs": ["asthma", "cold", "flu"], "other": ["gout", "measles"]}}
_NOTES = ["fine", "=1+1", "+49 30", "a,b", 'say "hi"', "Größe", "", "two\nlines", "-5", "@home"]
_FIRST_DAY, _FIRST_MOMENT = dt.date(2024, 1, 1), dt.datetime(2024, 3, 1)

_NUMERIC: dict[str, Written] = {
    "age": {"lower": 0, "upper": 100, "step": 5},
    "income": {"lower": 0.0, "upper": 1000.0, "step": 12.5},
    "day": {"lower": _FIRST_DAY, "upper": dt.date(2024, 12, 30), "step": 7},
    "at": {"lower": _FIRST_MOMENT, "upper": dt.datetime(2024, 3, 8), "step": 3600},
}
_CATEGORICAL: dict[str, Written] = {
    "zone": {"hierarchy": _ZONES},
    "job": {"hierarchy": _JOBS},
    "code": {"hierarchy": _CODES},
}
_DECLARED: dict[str, list[Written]] = {
    "illness": [{"values": _ILLNESSES}, {"hierarchy": _ILLNESS_TREE}],
    "cost": [{"bins": [10, 20, 50]}],
    "grade": [{"values": [1, 2, 3, 4]}],
    "seen": [{"bins": [dt.date(2023, 4, 1), dt.date(2023, 7, 1), dt.date(2023, 10, 1)]}],
}
_UNDECLARED = ("illness", "cost", "grade", "seen", "flag")
_PUBLIC = ("note", "amount", "ticks", "moment", "rate")
_RICH = (*_PUBLIC, "tiny", "time", "kind", "wide", "gone", "raw")


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What an algorithm asks of a schema."""

    observed: bool = False
    """Numbers may have no declared domain."""
    declared: bool = False
    """Sensitive columns need declared values."""
    tree: bool = False
    """Sensitive columns need a hierarchy."""
    public: bool = True
    root: bool = True
    """A row that cannot be read may go to the root."""
    few: bool = False
    """Only few different rows, so that equal ones meet."""
    sensitive: bool = False
    """At least one sensitive column."""
    person: bool = False
    """A person column."""
    rich: bool = False
    """Public columns may have types that not every file can hold."""


def make_schema(draws: Draws, traits: Traits) -> Written:
    """A schema as YAML has it."""
    numeric = draws.sample(list(_NUMERIC), draws.whole(1, 1 if traits.few else 2))
    categorical = draws.sample(list(_CATEGORICAL), draws.whole(0, 1 if traits.few else 2))
    quasi = [_numeric(draws, name, traits) for name in numeric]
    quasi += [_categorical(draws, name, traits) for name in categorical]
    schema: Written = {"person": _person(draws, traits), "quasi_identifiers": quasi}
    columns = _sensitive(draws, traits)
    if columns:
        schema["sensitive"] = columns
    if traits.public and draws.chance(0.6):
        schema["public"] = draws.sample(_RICH if traits.rich else _PUBLIC, draws.whole(1, 4))
    return schema


def build_schema(written: Written) -> cg.Schema:
    """The same as a value."""
    person = written["person"]
    return cg.Schema(
        person=cg.Person(**person) if isinstance(person, dict) else person,
        quasi_identifiers=[_role(entry) for entry in written["quasi_identifiers"]],
        sensitive=[_sensitive_role(entry) for entry in written.get("sensitive", ())],
        public=written.get("public", ()),
    )


def column_names(written: Written) -> list[str]:
    """All columns that the schema reads."""
    person = written["person"]
    names = [] if person is None else [person["name"] if isinstance(person, dict) else person]
    entries = [*written["quasi_identifiers"], *written.get("sensitive", ())]
    names += [entry["name"] if isinstance(entry, dict) else entry for entry in entries]
    return [*names, *written.get("public", ())]


def make_rows(draws: Draws, written: Written, rows: int, *, messy: bool) -> pa.Table:
    """Rows of about as many persons as half of them, one undeclared column among them."""
    columns: dict[str, pa.Array] = {}
    person = written["person"]
    kind = person.get("kind") if isinstance(person, dict) else None
    for name in column_names(written):
        made = _persons(draws, rows, kind) if name == "pid" else _COLUMNS[name](draws, rows)
        columns[name] = _with_gaps(draws, made, messy, 0.01 if name == "pid" else 0.02)
    columns["unused"] = pa.array(np.arange(rows))
    return pa.table(columns)


def _numeric(draws: Draws, name: str, traits: Traits) -> Written:
    entry: Written = {"name": name, **_NUMERIC[name]}
    if traits.observed and name in ("age", "income") and draws.chance(0.4):
        entry = {"name": name}
    elif traits.few:
        entry["step"] = {"age": 20, "income": 125.0, "day": 91, "at": 86400}[name]
    answers = ["reject", "root"] if traits.root else ["reject"]
    for key, share in (("null", 0.5), ("invalid", 0.5)):
        if draws.chance(share):
            entry[key] = draws.pick(answers)
    if draws.chance(0.5) and "lower" in entry:
        entry["outside"] = draws.pick(["clamp", *answers])
    return entry


def _categorical(draws: Draws, name: str, traits: Traits) -> Written:
    entry: Written = {"name": name, **_CATEGORICAL[name]}
    answers = ["reject", "root"] if traits.root else ["reject"]
    for key in ("null", "unknown"):
        if draws.chance(0.5):
            entry[key] = draws.pick(answers)
    if traits.declared and name == "job" and draws.chance(0.5):
        entry["default"] = "nurse"
    return entry


def _sensitive(draws: Draws, traits: Traits) -> list[Any]:
    if traits.tree:
        return [{"name": "illness", "hierarchy": _ILLNESS_TREE}]
    if traits.few:
        return [{"name": "grade", "values": [1, 2, 3, 4]}] if traits.sensitive or draws.chance(0.5) else []
    count = draws.whole(1 if traits.sensitive else 0, 2)
    if traits.declared:
        return [{"name": name, **draws.pick(_DECLARED[name])} for name in draws.sample(list(_DECLARED), count)]
    found: list[Any] = []
    for name in draws.sample(_UNDECLARED, count):
        declared = _DECLARED.get(name)
        found.append({"name": name, **draws.pick(declared)} if declared and draws.chance(0.4) else name)
    return found


def _person(draws: Draws, traits: Traits) -> Any:
    if not traits.person and draws.chance(0.15):
        return None
    if draws.chance(0.4):
        return "pid"
    kind = draws.pick(["text", "number", "uuid", None])
    entry: Written = {"name": "pid"} if kind is None else {"name": "pid", "kind": kind}
    return {**entry, "case": "exact"} if draws.chance(0.3) else entry


def _role(entry: Written) -> cg.Numeric | cg.Categorical:
    given = dict(entry)
    name = given.pop("name")
    if "hierarchy" in given:
        return cg.Categorical(name, **{**given, "hierarchy": _tree(given["hierarchy"])})
    return cg.Numeric(name, **given)


def _sensitive_role(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry
    given = dict(entry)
    name = given.pop("name")
    if "hierarchy" in given:
        given["hierarchy"] = _tree(given["hierarchy"])
    return cg.Sensitive(name, **given)


def _tree(written: Any) -> cg.Hierarchy:
    return cg.Hierarchy.flat(written) if isinstance(written, list) else cg.Hierarchy.from_mapping(written)


# -- columns: most values in the domain, a few beyond it -------------------------------------------------------------


def _persons(draws: Draws, rows: int, kind: str | None) -> pa.Array:
    numbers = draws.wholes(1, max(rows // 2, 2), rows).tolist()
    if kind == "uuid":
        return pa.array([f"00000000-0000-4000-8000-{number:012d}" for number in numbers])
    if kind == "text":
        forms = draws.wholes(0, 3, rows).tolist()
        return pa.array([_spelling(number, form) for number, form in zip(numbers, forms, strict=True)])
    return pa.array(numbers, pa.int64())


def _spelling(number: int, form: int) -> str:
    name = f"Person {number}"
    return (name, name.upper(), f"  {name} ", name.replace(" ", "  "))[form]


def _age(draws: Draws, rows: int) -> pa.Array:
    return pa.array(np.floor(draws.bells(rows) * 104.0).astype(np.int64))


def _income(draws: Draws, rows: int) -> pa.Array:
    values = np.round(draws.bells(rows) * 1040.0 * 4.0) / 4.0
    values[draws.units(rows) < 0.005] = np.nan
    return pa.array(values)


def _day(draws: Draws, rows: int) -> pa.Array:
    days = np.floor(draws.bells(rows) * 370.0).astype(np.int64).tolist()
    return pa.array([_FIRST_DAY + dt.timedelta(days=day) for day in days], pa.date32())


def _at(draws: Draws, rows: int) -> pa.Array:
    seconds = np.floor(draws.bells(rows) * 7.1 * 86400.0).astype(np.int64).tolist()
    return pa.array([_FIRST_MOMENT + dt.timedelta(seconds=second) for second in seconds], pa.timestamp("us"))


def _labels(*labels: Any) -> Callable[[Draws, int], pa.Array]:
    """Labels, the first ones more often; the last one is in no hierarchy, and rare."""

    def make(draws: Draws, rows: int) -> pa.Array:
        at = np.floor(np.minimum(draws.units(rows), draws.units(rows) + 0.2) * (len(labels) - 1)).astype(np.int64)
        at[draws.units(rows) < 0.01] = len(labels) - 1
        return pa.array([labels[place] for place in at.tolist()])

    return make


def _cost(draws: Draws, rows: int) -> pa.Array:
    return pa.array(np.round(draws.bells(rows) * 80.0 * 2.0) / 2.0)


def _seen(draws: Draws, rows: int) -> pa.Array:
    days = draws.wholes(0, 364, rows) // 14 * 14
    return pa.array([dt.date(2023, 1, 1) + dt.timedelta(days=day) for day in days.tolist()], pa.date32())


def _amount(draws: Draws, rows: int) -> pa.Array:
    cents = draws.wholes(-5000, 99999, rows).tolist()
    return pa.array([Decimal(cent) / 100 for cent in cents], pa.decimal128(10, 2))


def _moment(draws: Draws, rows: int) -> pa.Array:
    return pa.array(draws.wholes(1_700_000_000, 1_701_000_000, rows) * 1_000_000, pa.timestamp("us", tz="UTC"))


_COLUMNS: dict[str, Callable[[Draws, int], pa.Array]] = {
    "age": _age,
    "income": _income,
    "day": _day,
    "at": _at,
    "zone": _labels(*_ZONE_LEAVES, "Atlantis"),
    "job": _labels(*_JOBS, "wizard"),
    "code": _labels(*_CODES, 99),
    "illness": _labels(*_ILLNESSES, "spleen"),
    "cost": _cost,
    "grade": _labels(1, 2, 3, 4, 9),
    "seen": _seen,
    "flag": lambda draws, rows: pa.array(draws.units(rows) < 0.5),
    "note": lambda draws, rows: pa.array([_NOTES[at] for at in draws.wholes(0, len(_NOTES) - 1, rows).tolist()]),
    "amount": _amount,
    "ticks": lambda draws, rows: pa.array(draws.wholes(-(2**40), 2**40, rows)),
    "moment": _moment,
    "tiny": lambda draws, rows: pa.array(draws.wholes(-100, 100, rows).astype(np.int8)),
    "time": lambda draws, rows: pa.array(draws.wholes(0, 86_399, rows) * 1_000_000, pa.time64("us")),
    "kind": lambda draws, rows: _labels("red", "green", "blue", "grey")(draws, rows).dictionary_encode(),
    "wide": lambda draws, rows: pa.array([f"text {n}" for n in draws.wholes(0, 9, rows).tolist()], pa.large_string()),
    "gone": lambda draws, rows: pa.nulls(rows),
    "raw": lambda draws, rows: pa.array([bytes([n, 0, 255]) for n in draws.wholes(0, 200, rows).tolist()]),
    "rate": lambda draws, rows: pa.array(draws.units(rows).astype(np.float32)),
}


def _with_gaps(draws: Draws, values: pa.Array, messy: bool, share: float) -> pa.Array:
    """The same with a few nulls."""
    gaps: NDArray[np.bool_] = draws.units(len(values)) < share
    if not messy or not gaps.any():
        return values
    pairs = zip(values.to_pylist(), gaps.tolist(), strict=True)
    return pa.array([None if gap else value for value, gap in pairs], values.type)
