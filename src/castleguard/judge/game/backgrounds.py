"""The rows that a canary is put among: made up for the policy, or the first rows of a file.

Made-up rows lie in the middle of their domains, so that there is an outside, and are as many as a stream of this policy
needs to publish at all. Rows of a file are read once, as values that the schema accepts; those that it would refuse
are left out.
"""

import datetime as dt
import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from castleguard.algorithms.base import Policy
from castleguard.algorithms.facts import MembershipGame
from castleguard.errors import InputError, UsageError
from castleguard.judge.attack.canaries import Stream
from castleguard.judge.reading.originals import Originals, read_originals
from castleguard.judge.reading.values import texts_of
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

CLOCK = "now"
"""The column of made-up rows that says when a row arrives, in seconds."""
COMMON = ("a", "b", "c", "d")
SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("x", lower=0, upper=100, step=10), Numeric("y", lower=0, upper=100, step=10)],
    sensitive=[Sensitive("s", values=[*COMMON, "rare"])],
)
"""Of made-up rows."""

FEWEST, MOST = 60, 20_000
_GROUPS = 3.75  # groups of k that the kept rows would be enough for
_LONGEST = 600  # rows that are worth it to see a long delay end
_PERIODS = 3  # of a policy that is told the time


def made_up_rows(
    rows: int, *, values: Sequence[str] = COMMON, every: int | None = None, seconds: float = 10.0
) -> Stream:
    """Persons with one row each, in the middle of the domain. `every` so many rows, so many `seconds` pass."""
    draw = np.random.default_rng(2020)
    places = draw.uniform(40, 60, (rows, 2)).tolist()
    return [
        {"pid": row, "x": x, "y": y, "s": values[row % len(values)], CLOCK: seconds * (row // (every or rows))}
        for row, (x, y) in enumerate(places)
    ]


def game_of(policy: Policy, schema: Schema) -> MembershipGame:
    """How the game against a policy is played. Raises UsageError if it cannot be."""
    found = policy.game(schema)
    if found is None:
        raise UsageError(f"{policy.name} does not say how the membership game against it is played")
    return found


def rows_for(policy: Policy, schema: Schema = SCHEMA) -> int:
    """How many rows a stream needs to publish most of them, and to see the delay end."""
    game = game_of(policy, schema)
    delay = min(game.longest_delay * 3 // 2, _LONGEST)
    rows = max(FEWEST, round(_GROUPS * game.rows_per_group), delay)
    if rows > MOST:
        raise UsageError(
            f"every run would need {rows:,} rows for groups of k={policy.k}: audit a smaller k or a larger sample_rate"
        )
    return rows


def background_for(policy: Policy) -> Stream:
    """Made-up rows for a policy."""
    game = game_of(policy, SCHEMA)
    if game.l > len(COMMON):
        raise UsageError(f"made-up rows have {len(COMMON)} common values: for a larger l give a schema and data")
    seconds = float(game.period or 10.0)
    if game.fills_windows is not None:
        # Every value of a window stands on the edge of being published.
        values = COMMON[: max(2, game.l)]
        each = round(len(values) * game.rows_per_group)
        if each > MOST:
            raise UsageError(f"a window would need {each:,} rows: audit a smaller k or a larger sample_rate")
        return made_up_rows(each * game.fills_windows, values=values, every=each, seconds=seconds)
    rows = rows_for(policy)
    return made_up_rows(rows, every=math.ceil(rows / _PERIODS), seconds=seconds)


def rows_of(table: pa.Table, schema: Schema) -> Stream:
    """Rows of a file as plain values of their columns; a row that the schema refuses or that lacks a value is left out.

    A file has no clock: all of its rows arrive at one moment.
    """
    read = read_originals(table, schema)
    columns = {role.name: _values(role, read, number) for number, role in enumerate(schema.quasi_identifiers)} | {
        role.name: _sensitive(role, table.column(role.name)) for role in schema.sensitive
    }
    for name in schema.columns:
        columns.setdefault(name, table.column(name).to_pylist())
    described = [columns[name] for name in schema.described]
    usable = [
        row
        for row in np.flatnonzero(~read.rejected & ~read.to_root).tolist()
        if all(column[row] is not None for column in described)
    ]
    if len(usable) < FEWEST // 2:
        raise InputError(f"{len(usable)} rows of the data can be used, and the game needs {FEWEST // 2} at least")
    return [{name: column[row] for name, column in columns.items()} for row in usable]


def _values(role: QuasiIdentifier, read: Originals, number: int) -> list[object]:
    """The values of a quasi-identifier as what the schema declares: leaves, numbers, dates or moments."""
    coded = [None if math.isnan(value) else value for value in read.values[number].tolist()]
    if isinstance(role, Categorical):
        return [None if code is None else role.hierarchy.leaves[int(code)] for code in coded]
    return [None if code is None else _uncoded(role, code) for code in coded]


def _uncoded(role: Numeric, value: float) -> object:
    if role.kind == "date":
        return dt.date(1970, 1, 1) + dt.timedelta(days=value)
    if role.kind == "timestamp":
        aware = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=value)
        zoned = isinstance(role.lower, dt.datetime) and role.lower.tzinfo is not None
        return aware if zoned else aware.replace(tzinfo=None)
    return value


def _sensitive(role: Sensitive, column: pa.ChunkedArray) -> list[object]:
    """The values of a sensitive column; a declared label as it is declared, whatever the file made of it."""
    if role.labels is None or role.bins is not None:
        return list(column.to_pylist())
    label_of = {str(label): label for label in role.labels}
    texts, codes = texts_of(column)
    labels = [None if text is None else label_of.get(text) for text in texts]
    return [labels[code] for code in codes.tolist()]
