"""Warm-up: pushes a few synthetic rows through an engine to compile its kernels before real rows arrive.

Workers on the same machine share the cache. On other machines the first micro-batch includes the compilation.
"""

import pyarrow as pa

from castleguard.algorithms.policy import Policy
from castleguard.schema.roles import Categorical, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive
from castleguard.stream import Anonymiser

_ROWS = 3
_TIMES = {"date": "2000-01-01", "timestamp": "2000-01-01T00:00:00"}


def warm_up(schema: Schema, policy: Policy) -> None:
    """Push synthetic rows through a stream, and discard it."""
    stream = Anonymiser(schema, policy)
    stream.push(synthetic_rows(schema), now=0.0)
    stream.tick(1.0)
    stream.flush(warn=False)
    stream.snapshot()


def synthetic_rows(schema: Schema) -> pa.Table:
    """Return rows that fit the schema, as text."""
    columns: dict[str, list[str]] = {role.name: [_value(role)] * _ROWS for role in schema.quasi_identifiers}
    columns |= {role.name: [_sensitive(role)] * _ROWS for role in schema.sensitive}
    columns |= {name: ["x"] * _ROWS for name in schema.public}
    if schema.person is not None:
        columns[schema.person] = [str(row) for row in range(_ROWS)]
    return pa.table({name: pa.array(columns[name], pa.string()) for name in schema.columns})


def _value(role: QuasiIdentifier) -> str:
    if isinstance(role, Categorical):
        return str(role.hierarchy.leaves[0])
    return str(role.lower) if role.lower is not None else _TIMES.get(str(role.kind), "0")


def _sensitive(role: Sensitive) -> str:
    if role.bins is not None:
        return str(role.bins[0])
    return "x" if role.labels is None else str(role.labels[0])
