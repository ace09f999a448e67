"""Randomiser: local noise by itself, at the edge, so that people need not trust whoever collects their rows.

Rows leave it as they came, column by column, with noisy values in place of the true ones. Whoever collects them
declares that with `Castleguard(noise="edge", ...)` and the same parameters.
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
    """Randomises rows where they arise: `epsilon` for a whole row, split evenly or by `weights`, or `phi` per column.

    Every row comes out, in order. A value that cannot be read counts as its column's public default, because refusing
    the row would tell something about it. `seed` is for tests and experiments: it voids the guarantee.

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
        """The declared columns of the rows, made noisy; person and public columns pass as they are.

        Rows may come as a pyarrow Table or RecordBatch, a pandas or polars DataFrame, or a list of dicts. Each call
        draws fresh noise: a row that is randomised twice is published twice.
        """
        table = self._passing(to_table(batch, self._schema.columns, person=self._schema.person))
        rows = self._decoder.decode(table, typed=has_types(batch, self._schema.person)).rows
        count = rows.person.size
        noisy = self._noise.apply(rows, self._arrivals, np.ones(count, dtype=np.bool_))
        self._arrivals += count
        return self._encode(table, noisy)

    def guarantee(self) -> Guarantee:
        """The privacy statement."""
        epsilon = float_above(sum(self._shares.values(), Fraction(0)))
        passed = self._schema.public if self._schema.person is None else (self._schema.person, *self._schema.public)
        return Guarantee(
            promise="Each value of a row is randomised by itself, before anybody else sees it.",
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
        """The state, to be continued by `restore`: the key of the noise to come. Keep it secret."""
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
        """Continue from a snapshot; refused if schema or parameters are not the snapshot's own."""
        record = unpack(blob)
        randomiser = cls(schema, epsilon=epsilon, phi=phi, weights=weights)
        mine = randomiser._identity()
        differing = differences(mine, {name: record.facts.get(name) for name in mine})
        if differing:
            raise SnapshotError(f"the snapshot belongs to another randomiser: {', '.join(differing)} differ")
        randomiser._noise.restore(record.arrays)
        randomiser._seeded, randomiser._arrivals = record.facts["seeded"], record.facts["arrivals"]
        return randomiser

    def _identity(self) -> dict[str, Any]:
        """What a snapshot must have in common with the randomiser that continues it, as JSON has it."""
        shares = {name: str(share) for name, share in self._shares.items()}
        described: dict[str, Any] = json.loads(json.dumps({"schema": self._schema.fingerprint(), "epsilon": shares}))
        return described

    def _passing(self, table: pa.Table) -> pa.Table:
        """The rows with what passes as it is made plain: without what belongs to no row, or can be held by no sink."""
        passed = self._schema.public if self._schema.person is None else (self._schema.person, *self._schema.public)
        rows = pa.array(np.arange(table.num_rows))
        for name in passed:
            at = table.schema.get_field_index(name)
            if at >= 0:  # taken, because only then a null hides nothing
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
    """Coded values as they are published: numbers, dates, timestamps, leaves."""
    if isinstance(role, Numeric):
        return numeric_values(role, numeric_type(role), np.ascontiguousarray(coded))
    return pa.array(role.hierarchy.leaves, pa.string()).take(pa.array(coded.astype(np.int64)))
