"""Randomiser: local noise at the edge, so that people need not trust the collector of their rows.

The output has the same columns as the input, with noisy values in place of the true ones. The collector declares this
with `Castleguard(noise="edge", ...)` and the same parameters.
"""

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from castleguard.algorithms.stages import check_schema, make_keys
from castleguard.checkpoint.codec import Record, differences, pack, unpack
from castleguard.errors import SnapshotError
from castleguard.intake.local import LocalNoise
from castleguard.privacy.epsilon_shares import float_above, share_epsilon
from castleguard.privacy.guarantee import SEED, SYSTEM, DifferentialPrivacy, Guarantee
from castleguard.release.encode import numeric_type, numeric_values, sensitive_labels
from castleguard.schema.coded import CodedRows
from castleguard.schema.decode import Decoder
from castleguard.schema.publishable import plain, publishable
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema
from castleguard.schema.table import has_types, to_table


class Randomiser:
    """Randomises rows at their origin: `epsilon` per row, split evenly or by `weights`, or `phi` per column.

    Returns every row, in order. An unreadable value is replaced by its column's public default, because rejecting the
    row would reveal something about it. `seed` is for tests and experiments: it voids the guarantee.

    >>> schema = Schema(person="pid", quasi_identifiers=[Numeric("age", lower=0, upper=100, step=1)])
    >>> randomiser = Randomiser(schema, epsilon=1.0, seed=1)
    >>> randomiser.randomise([{"pid": 7, "age": 30}]).schema.names
    ['pid', 'age']
    """

    def __init__(
        self,
        schema: Schema,
        *,
        epsilon: float | None = None,
        phi: float | None = None,
        weights: Mapping[str, float] | None = None,
        seed: int | None = None,
    ) -> None:
        check_schema(schema)
        self._schema = schema
        self._shares = share_epsilon(schema.described, epsilon=epsilon, phi=phi, weights=weights)
        self._seeded = seed is not None
        keys = make_keys(seed)
        self._noise = LocalNoise(schema, self._shares, key=keys.noise)
        self._decoder = Decoder(schema, key=keys.hashes, total=True, sealed=True)
        self._labels = [sensitive_labels(role) for role in schema.sensitive]
        self._arrivals = 0

    def randomise(self, batch: object) -> pa.Table:
        """Return the declared columns with noise; person and public columns are unchanged.

        `batch` is a pyarrow Table or RecordBatch, a pandas or polars DataFrame, or a list of dicts. Each call draws
        fresh noise: randomising a row twice spends its epsilon twice.
        """
        table = self._clean_unchanged(to_table(batch, self._schema.columns, person=self._schema.person))
        rows = self._decoder.decode(table, typed=has_types(batch, self._schema.person)).rows
        count = rows.person.size
        noisy = self._noise.apply(rows, self._arrivals, np.ones(count, dtype=np.bool_))
        self._arrivals += count
        return self._encode(table, noisy)

    def guarantee(self) -> Guarantee:
        """Return the privacy guarantee."""
        epsilon = float_above(sum(self._shares.values(), Fraction(0)))
        passed = self._schema.public if self._schema.person is None else (self._schema.person, *self._schema.public)
        return Guarantee(
            promise="Each value of a row is randomised independently, before anyone else sees it.",
            limits=(
                "A person with n rows has n times this epsilon.",
                "The bounds and values in the schema are taken to be public.",
            ),
            privacy=DifferentialPrivacy(
                epsilon=epsilon,
                dp_delta=0.0,
                unit="one row",
                neighbours="its values replaced by any others",
                horizon="the whole stream",
                covered=self._schema.described,
                uncovered=("that a row is there and when it came", *passed),
                randomness=SEED if self._seeded else SYSTEM,
            ),
        )

    def snapshot(self) -> bytes:
        """Return the state for `restore`. It contains the key of future noise: keep it secret."""
        facts = {**self._identity(), "seeded": self._seeded, "arrivals": self._arrivals}
        return pack(Record(facts=facts, arrays=self._noise.snapshot()))

    @classmethod
    def restore(
        cls,
        schema: Schema,
        blob: bytes,
        *,
        epsilon: float | None = None,
        phi: float | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> "Randomiser":
        """Restore a randomiser from its snapshot. Refuses one that was taken with another schema or parameters."""
        record = unpack(blob)
        randomiser = cls(schema, epsilon=epsilon, phi=phi, weights=weights)
        identity = randomiser._identity()
        differing = differences(identity, {name: record.facts.get(name) for name in identity})
        if differing:
            raise SnapshotError(f"the snapshot belongs to another randomiser: {', '.join(differing)} differ")
        randomiser._noise.restore(record.arrays)
        randomiser._seeded, randomiser._arrivals = record.facts["seeded"], record.facts["arrivals"]
        return randomiser

    def _identity(self) -> dict[str, Any]:
        """Return what a snapshot and the randomiser restored from it must share, as JSON values."""
        shares = {name: str(share) for name, share in self._shares.items()}
        described: dict[str, Any] = json.loads(json.dumps({"schema": self._schema.fingerprint(), "epsilon": shares}))
        return described

    def _clean_unchanged(self, table: pa.Table) -> pa.Table:
        """Strip the columns that pass unchanged of hidden values and of values that no sink can store."""
        passed = self._schema.public if self._schema.person is None else (self._schema.person, *self._schema.public)
        rows = pa.array(np.arange(table.num_rows))
        for name in passed:
            at = table.schema.get_field_index(name)
            if at >= 0:  # `take` copies: the buffer of a null may still hold a value
                table = table.set_column(at, name, publishable(plain(table.column(at))).take(rows))
        return table

    def _encode(self, table: pa.Table, noisy: CodedRows) -> pa.Table:
        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        if self._schema.person is not None:
            columns[self._schema.person] = table.column(self._schema.person)
        for at, role in enumerate(self._schema.quasi_identifiers):
            columns[role.name] = _values(role, noisy.quasi[:, at])
        for at, column in enumerate(self._schema.sensitive):
            columns[column.name] = self._labels[at].take(pa.array(noisy.sensitive[:, at]))
        columns |= {name: table.column(name) for name in self._schema.public}
        return pa.table(columns)


def _values(role: QuasiIdentifier, coded: np.ndarray[Any, np.dtype[np.float64]]) -> pa.Array:
    """Decode values for publication: numbers, dates, timestamps, leaves."""
    if isinstance(role, Numeric):
        return numeric_values(role, numeric_type(role), np.ascontiguousarray(coded))
    return pa.array(role.hierarchy.leaves, pa.string()).take(pa.array(coded.astype(np.int64)))
