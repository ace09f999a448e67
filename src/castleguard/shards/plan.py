"""Plan: schema, policy and route of a sharded stream. A frozen value that is sent to every worker."""

import json
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.policy import Policy
from castleguard.algorithms.stages import check_policy, check_schema
from castleguard.release.encode import Numbers
from castleguard.schema.roles import Schema

Shards = NDArray[np.int32]  # (rows,)


class Route(Protocol):
    """Assigns rows to shards. A stateless function of the row alone.

    The same row always goes to the same shard: in every batch, with every type of input, on every machine and in every
    compatible version, because a batch may be replayed elsewhere.
    """

    @property
    def shards(self) -> int:
        """Number of shards."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads: the person, the position, or quasi-identifiers; never a sensitive or public column.

        The shard of a row is visible. If it depended on a sensitive value, an attacker who knows a person's
        quasi-identifiers could exclude values of a group; if on a public value, rows of it.
        """

    def shard_of(self, table: pa.Table) -> Shards:
        """Return the shard of each row, from 0. An unreadable row goes by its person, or to the first shard.

        It must not go by a hash of exact values: only few values of a published range would match its shard.
        """

    def fingerprint(self) -> dict[str, Any]:
        """Return JSON values that are equal if and only if two routes send every row to the same shard."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a sharded stream. All its shards share one plan from the first row on; their states are checked."""

    schema: Schema
    policy: Policy
    route: Route
    numbers: Numbers | None = None
    position: tuple[str, ...] = ()
    """Columns that define the order of rows, such as partition and offset; without them a secret shuffle does."""
    seed: int | None = None  # for tests and experiments: voids the guarantee, which states that

    def __post_init__(self) -> None:
        check_schema(self.schema)
        check_policy(self.policy)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return self.route.shards

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        return tuple(dict.fromkeys([*self.schema.columns, *self.route.columns, *self.position]))

    def fingerprint(self) -> dict[str, Any]:
        """Return the facts that a state must match. The stream itself checks the schema and the policy."""
        own = {"route": self.route.fingerprint(), "position": list(self.position)}
        described: dict[str, Any] = json.loads(json.dumps(own, default=str))
        return described
