"""What a host is to do: schema, policy and how rows are spread over shards. A frozen value, sent to every worker."""

import json
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.base import Policy
from castleguard.algorithms.stages import check_policy, check_schema
from castleguard.release.encode import Numbers
from castleguard.schema.roles import Schema

Shards = NDArray[np.int32]  # (rows,)


class Route(Protocol):
    """Which shard a row belongs to. A function of the row alone: it has no state, and knows of no other row.

    The same row always goes to the same shard, in whatever batch and of whatever type it comes, on every machine and
    in every release of this version's line: a batch may be run again elsewhere.
    """

    @property
    def shards(self) -> int:
        """How many there are."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads: the person, the position, or quasi-identifiers, and never a sensitive or a public
        column. A row's shard shows. If it followed from a sensitive value, whoever knows a person's quasi-identifiers
        could tell which values of a group are not that person's; from a public one, which rows are not.
        """

    def shard_of(self, table: pa.Table) -> Shards:
        """The number of the shard of each row, from 0. A row that cannot be read goes somewhere, too: by its person, or
        to the first shard. Not by a hash of exact values: few values of a published range would fit it.
        """

    def fingerprint(self) -> dict[str, Any]:
        """What JSON can hold; equal if and only if two routes send every row to the same shard."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The whole of it. Shards of one stream have one plan, from the first row on: their states are checked for it."""

    schema: Schema
    policy: Policy
    route: Route
    numbers: Numbers | None = None
    position: tuple[str, ...] = ()
    """Columns that say in which order rows came, such as partition and offset; without them a secret shuffle does."""
    seed: int | None = None
    """For tests and experiments: it voids the guarantee, which says so."""

    def __post_init__(self) -> None:
        check_schema(self.schema)
        check_policy(self.policy)

    @property
    def shards(self) -> int:
        """How many engines there are."""
        return self.route.shards

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return tuple(dict.fromkeys([*self.schema.columns, *self.route.columns, *self.position]))

    def fingerprint(self) -> dict[str, Any]:
        """What a state must have been made with, beyond the schema and the policy that its stream checks itself."""
        own = {"route": self.route.fingerprint(), "position": list(self.position)}
        described: dict[str, Any] = json.loads(json.dumps(own, default=str))
        return described
