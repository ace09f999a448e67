"""An algorithm from outside the package: `together` rows leave together, in the box around them.

It is found through an entry point, and the package does not mention it. Numeric quasi-identifiers only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.engine import Engine, Flags
from castleguard.algorithms.facts import MembershipGame, Publication, ShardPromise
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.stages import Keys, Stages
from castleguard.errors import SchemaError
from castleguard.intake.intake import Intake
from castleguard.privacy.criteria import Criteria
from castleguard.privacy.guarantee import Guarantee
from castleguard.privacy.parameter_fields import declare
from castleguard.release.encode import Encoder, Numbers
from castleguard.release.gate import Gate
from castleguard.schema.coded import NEW, CodedRows, Decisions
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive


@dataclass(frozen=True, kw_only=True)
class Padding:
    """A nested value, flattened on the command line."""

    cells: int = field(metadata=declare("Cells that a box is wider on either side.", least=0, option="padding"))


@dataclass(frozen=True, kw_only=True)
class Toy(Policy):
    """Groups of `together` rows in the order of their arrival."""

    name: ClassVar[str] = "toy"
    summary: ClassVar[str] = "groups of rows in the order of their arrival"

    k: int = field(metadata=declare("Distinct persons per published group.", least=2))
    together: int = field(default=10, metadata=declare("Rows of a group.", least=1, most=1000, symbol="the toy's m"))
    max_wait: float | None = field(default=None, metadata=declare("Not used.", above=0, unit="seconds"))
    last: Literal["drop", "keep"] = field(default="keep", metadata=declare("What flush does with an unfinished group."))
    padding: Padding | None = field(default=None, metadata=declare("How much wider a box is."))

    def stages(self, schema: Schema, keys: Keys, *, numbers: Numbers | None = None) -> Stages:
        """New stages for a stream."""
        if not all(isinstance(role, Numeric) for role in schema.quasi_identifiers):
            raise SchemaError("toy needs numeric quasi-identifiers")
        return Stages(
            decoder=Decoder(schema, key=keys.hashes, cells=True),
            intake=Intake(),
            engine=ToyEngine(schema, self),
            gate=self.gate(schema),
            encoder=self.encoder(schema, numbers),
        )

    def gate(self, schema: Schema) -> Gate:
        """A gate of the package."""
        return Gate(schema, Criteria(k=self.k), known=1, on_grid=True, reuse=False)

    def encoder(self, schema: Schema, numbers: Numbers | None = None) -> Encoder:
        """The encoder of boxes."""
        return Encoder(schema, numbers=numbers or "bounds")

    def guarantee(self, schema: Schema, *, seeded: bool) -> Guarantee:
        """k persons in each group."""
        return Guarantee(
            promise=f"Every group has at least {self.k} persons.",
            limits=("A toy: for tests only.",),
            k=self.k,
            delay=self.together,
            max_wait=None,
        )

    def fingerprint(self) -> dict[str, object]:
        """See Policy."""
        return {"algorithm": self.name, **asdict(self)}

    def publication(self, schema: Schema) -> Publication:
        """See Policy."""
        return Publication(form="boxes", criteria=Criteria(k=self.k), delay=self.together)

    def becomes(self, role: QuasiIdentifier | Sensitive, numbers: Numbers | None = None) -> str:
        """See Policy."""
        return "a toy's box" if not isinstance(role, Sensitive) else "published as it is"

    def waits(self, *, endless: bool) -> Iterator[str]:
        """See Policy."""
        yield f"A row waits for {self.together} rows."

    @property
    def rows_held(self) -> int | None:
        """See Policy."""
        return self.together

    @property
    def draws_noise(self) -> bool:
        """See Policy."""
        return False

    def sharded(self, schema: Schema, *, streaming: bool) -> ShardPromise:
        """See Policy."""
        return ShardPromise()

    def game(self, schema: Schema) -> MembershipGame:
        """See Policy."""
        return MembershipGame(rows_per_group=self.together, longest_delay=self.together)


class ToyEngine(Engine):
    """Keeps rows until a group is complete."""

    def __init__(self, schema: Schema, policy: Toy) -> None:
        self._edges = [role.edges for role in schema.quasi_identifiers if isinstance(role, Numeric)]
        self._policy = policy
        self._quasi = np.empty((0, len(self._edges)))
        self._position = np.empty(0, dtype=np.int64)
        self._arrivals = 0

    def push(self, rows: CodedRows, now: float, present: Flags | None = None) -> Decisions:
        """See Engine."""
        positions = np.arange(self._arrivals, self._arrivals + rows.person.size)
        self._arrivals += rows.person.size
        self._quasi = np.concatenate([self._quasi, rows.quasi])
        self._position = np.concatenate([self._position, positions])
        return self._release(self._position.size // self._policy.together)

    def tick(self, now: float) -> Decisions:
        """See Engine."""
        return self._release(0)

    def flush(self) -> Decisions:
        """See Engine."""
        if self._policy.last == "keep":
            return self._release(int(self._position.size > 0))
        dropped = self._position
        self._forget(dropped.size)
        return self._release(0)._replace(dropped=dropped)

    @property
    def arrivals(self) -> int:
        """See Engine."""
        return self._arrivals

    @property
    def pending(self) -> int:
        """See Engine."""
        return int(self._position.size)

    @property
    def oldest(self) -> int:
        """See Engine."""
        return int(self._position[0]) if self._position.size else self._arrivals

    @property
    def open_clusters(self) -> int:
        """See Engine."""
        return int(self._position.size > 0)

    @property
    def threshold(self) -> float:
        """See Engine."""
        return 0.0

    @property
    def longest_wait(self) -> int:
        """See Engine."""
        return min(self._policy.together, self._arrivals)

    def snapshot(self) -> dict[str, NDArray[np.generic]]:
        """See Engine."""
        return {"quasi": self._quasi, "position": self._position, "arrivals": np.array([self._arrivals])}

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """See Engine."""
        self._quasi, self._position = arrays["quasi"].copy(), arrays["position"].copy()
        self._arrivals = int(arrays["arrivals"][0])

    def _release(self, groups: int) -> Decisions:
        """The first `groups` groups; the last of them may be smaller."""
        size = min(groups * self._policy.together, self._position.size)
        leaving, group = self._position[:size], np.arange(size) // self._policy.together
        bounds = [self._box(self._quasi[:size][group == at]) for at in range(groups)]
        self._forget(size)
        lower = np.array([box[0] for box in bounds]).reshape(groups, len(self._edges))
        upper = np.array([box[1] for box in bounds]).reshape(groups, len(self._edges))
        width = np.array([edges[-1] - edges[0] for edges in self._edges])
        return Decisions(
            position=leaving,
            group=group,
            lower=lower,
            upper=upper,
            loss=np.mean((upper - lower) / width, axis=1),
            kind=np.full(groups, NEW),
            kept=np.zeros(groups, dtype=np.bool_),
            event=np.arange(groups) + self._arrivals,
            seen=np.full(groups, self._arrivals),
            dropped=np.empty(0, dtype=np.int64),
        )

    def _box(self, quasi: NDArray[np.float64]) -> tuple[list[float], list[float]]:
        wider = 0 if self._policy.padding is None else self._policy.padding.cells
        lower, upper = [], []
        for edges, values in zip(self._edges, quasi.T, strict=True):
            first = np.searchsorted(edges, values.min(), side="right") - 1 - wider
            last = np.searchsorted(edges, values.max(), side="right") + wider
            lower.append(float(edges[max(first, 0)]))
            upper.append(float(edges[min(last, edges.size - 1)]))
        return lower, upper

    def _forget(self, rows: int) -> None:
        self._quasi, self._position = self._quasi[rows:], self._position[rows:]


class LenientGate(Gate):
    """A gate that passes every group."""

    def check(self, decisions: Decisions, rows: CodedRows) -> NDArray[np.bool_]:
        """Pass every group."""
        return np.ones(decisions.loss.size, dtype=np.bool_)


@dataclass(frozen=True, kw_only=True)
class OwnGate(Toy):
    """Has a custom gate."""

    name: ClassVar[str] = "own-gate"

    def gate(self, schema: Schema) -> Gate:
        """A gate from outside the package."""
        return LenientGate(schema, Criteria(k=self.k), known=1, on_grid=True)


@dataclass(frozen=True, kw_only=True)
class LowGate(Toy):
    """Demands less from the gate than its statement promises."""

    name: ClassVar[str] = "low-gate"

    def gate(self, schema: Schema) -> Gate:
        """One person fewer."""
        return Gate(schema, Criteria(k=self.k - 1), known=1, on_grid=True)


@dataclass(frozen=True, kw_only=True)
class OtherType(Toy):
    """Has a parameter that other algorithms have, with another type."""

    name: ClassVar[str] = "other-type"

    delay: str = "short"


@dataclass(frozen=True, kw_only=True)
class Seeded(Toy):
    """Has a parameter with the name of an option that commands have."""

    name: ClassVar[str] = "seeded"

    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Together(Toy):
    """Claims to support several sites."""

    name: ClassVar[str] = "together"
    several_sites: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Listed(Toy):
    """Has a required parameter that is not one value."""

    name: ClassVar[str] = "listed"

    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Silent(Policy):
    """Lacks every answer."""

    name: ClassVar[str] = "silent"
