"""Background rows around a canary: made up for the policy, or the first rows of a file.

Made-up rows lie in the middle of their domains, so that outliers are possible, and are as many as a stream of this
policy needs to publish. Rows of a file are read as values that the schema accepts; rejected rows are left out.
"""

import datetime as dt
import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from castleguard.algorithms.facts import MembershipGame
from castleguard.algorithms.policy import Policy
from castleguard.errors import InputError, UsageError
from castleguard.judge.attack.canaries import Stream
from castleguard.judge.reading.originals import Originals, read_originals
from castleguard.judge.reading.values import texts_of
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

CLOCK = "now"
"""Column of made-up rows with the arrival time in seconds."""
COMMON = ("a", "b", "c", "d")
SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("x", lower=0, upper=100, step=10), Numeric("y", lower=0, upper=100, step=10)],
    sensitive=[Sensitive("s", values=[*COMMON, "rare"])],
)
"""Schema of made-up rows."""

FEWEST, MOST = 60, 20_000
_GROUPS = 3.75  # groups of k that the kept rows suffice for
_LONGEST = 600  # upper limit of rows spent on reaching the end of a long delay
_PERIODS = 3  # time periods in the background of a timed policy


def made_up_rows(
    rows: int, *, values: Sequence[str] = COMMON, every: int | None = None, seconds: float = 10.0
) -> Stream:
    """Persons with one row each, in the middle of the domain; the clock advances by `seconds` after `every` rows."""
    draw = np.random.default_rng(2020)
    places = draw.uniform(40, 60, (rows, 2)).tolist()
    return [
        {"pid": row, "x": x, "y": y, "s": values[row % len(values)], CLOCK: seconds * (row // (every or rows))}
        for row, (x, y) in enumerate(places)
    ]


def game_of(policy: Policy, schema: Schema) -> MembershipGame:
    """Rules of the game against a policy. Raises UsageError if the policy has none."""
    found = policy.game(schema)
    if found is None:
        raise UsageError(f"the membership game cannot be played against {policy.name}: it defines no rules for it")
    return found


def rows_for(policy: Policy, schema: Schema = SCHEMA) -> int:
    """Number of rows that a stream needs to publish most of them, and to reach the end of the delay."""
    game = game_of(policy, schema)
    delay = min(game.longest_delay * 3 // 2, _LONGEST)
    rows = max(FEWEST, round(_GROUPS * game.rows_per_group), delay)
    if rows > MOST:
        raise UsageError(
            f"each run would need {rows:,} rows for groups of k={policy.k}: audit a smaller k or a larger sample_rate"
        )
    return rows


def background_for(policy: Policy) -> Stream:
    """Made-up rows for a policy."""
    game = game_of(policy, SCHEMA)
    if game.l > len(COMMON):
        raise UsageError(f"made-up rows have only {len(COMMON)} common values: for a larger l, give a schema and data")
    seconds = float(game.period or 10.0)
    if game.fills_windows is not None:
        # Every value of a window is at the threshold of being published.
        values = COMMON[: max(2, game.l)]
        each = round(len(values) * game.rows_per_group)
        if each > MOST:
            raise UsageError(f"a window would need {each:,} rows: audit a smaller k or a larger sample_rate")
        return made_up_rows(each * game.fills_windows, values=values, every=each, seconds=seconds)
    rows = rows_for(policy)
    return made_up_rows(rows, every=math.ceil(rows / _PERIODS), seconds=seconds)


def rows_of(table: pa.Table, schema: Schema) -> Stream:
    """Rows of a file as plain values, without rows that the schema rejects or that lack a value.

    A file has no clock, so all rows arrive at the same time.
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
        raise InputError(f"only {len(usable)} rows of the data are usable; the game needs at least {FEWEST // 2}")
    return [{name: column[row] for name, column in columns.items()} for row in usable]


def _values(role: QuasiIdentifier, read: Originals, number: int) -> list[object]:
    """Values of a quasi-identifier in the declared type: leaves, numbers, dates or timestamps."""
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
    """Values of a sensitive column; declared labels in their declared type, even if the file is text."""
    if role.labels is None or role.bins is not None:
        return list(column.to_pylist())
    label_of = {str(label): label for label in role.labels}
    texts, codes = texts_of(column)
    labels = [None if text is None else label_of.get(text) for text in texts]
    return [labels[code] for code in codes.tolist()]
