"""The contract of an algorithm: a policy answers every question that other modules ask, so that none asks its class.

An algorithm is a folder: `policy.py` (parameters, checks, words), an engine, and whatever only it needs. It registers
its policy as an entry point of the group `castleguard.algorithms` (`registry.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from castleguard.algorithms.facts import Joint, MembershipGame, Presence, Publication, ShardPromise
from castleguard.errors import PolicyError
from castleguard.privacy.guarantee import Guarantee
from castleguard.privacy.parameter_fields import check_parameters
from castleguard.schema.roles import QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

if TYPE_CHECKING:  # stages need Arrow and kernels, which a policy does not
    from castleguard.algorithms.stages import AnyEncoder, Keys, Stages
    from castleguard.release.encode import Numbers

Mode = Literal["strict", "paper"]
Order = Literal["shuffled", "arrival", "input"]
WindowUnit = Literal["seconds", "rows"]
Admission = Literal["lt", "le"]
MAX_DELAY = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """Parameters of an algorithm (the fields of the frozen dataclass that derives from it), and its answers.

    A field declares its help text, bounds, unit and symbol (`field(metadata=declare(...))`,
    `privacy/parameter_fields.py`). Job files, the JSON Schema, command-line options and reference tables are generated
    from the fields.
    """

    name: ClassVar[str]
    """In job files, on the command line and in metrics."""
    summary: ClassVar[str]
    """What it publishes, in a few words: for lists of algorithms."""
    several_sites: ClassVar[bool] = False
    """Whether only several sites together can publish; refused for a single stream."""

    if TYPE_CHECKING:  # parameters or properties that every policy has

        @property
        def k(self) -> int | None:
            """Persons, or rows, of a published group; None: not promised."""

        @property
        def max_wait(self) -> float | None:
            """Seconds after which a row leaves; None: only arrivals count."""

    def __post_init__(self) -> None:
        check_parameters(self)
        for needed in ("k", "max_wait"):
            if not hasattr(self, needed):
                raise PolicyError(f"{self.name} has no {needed}: give it a parameter or a property of that name")

    @classmethod
    def for_file(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The given parameters, completed for a file, which has no clock. Raises PolicyError if that cannot be done."""
        return dict(given)

    def check(self, schema: Schema) -> None:
        """Raise PolicyError or SchemaError if this policy cannot publish such rows: before the first one arrives.

        By default stages are made and thrown away: a policy whose `stages` call `check` must override it.
        """
        from castleguard.algorithms.stages import make_keys

        self.stages(schema, make_keys(seed=0))

    @abstractmethod
    def stages(self, schema: Schema, keys: "Keys", *, numbers: "Numbers | None" = None) -> "Stages":
        """New stages for a stream."""

    @abstractmethod
    def encoder(self, schema: Schema, numbers: "Numbers | None" = None) -> "AnyEncoder":
        """The last of them by itself: it names and types the published columns."""

    @abstractmethod
    def guarantee(self, schema: Schema, *, seeded: bool) -> Guarantee:
        """The privacy statement for a stream of this schema."""

    @abstractmethod
    def fingerprint(self) -> dict[str, object]:
        """A canonical description that JSON can hold: two policies decide alike iff theirs are equal."""

    @abstractmethod
    def publication(self, schema: Schema) -> Publication:
        """What a published table can be held to."""

    # What streams and jobs ask.

    @property
    def strict(self) -> bool:
        """Whether the promise is kept where the paper loses it."""
        return True

    @property
    def timed(self) -> bool:
        """Whether the stream must be told the time."""
        return self.max_wait is not None

    @property
    def chosen_order(self) -> Order:
        """The order of published rows."""
        return "shuffled"

    @property
    def draws_noise(self) -> bool:
        """Whether publishing the same rows again draws again, and so spends their budget again."""
        return True

    @property
    def publishes_values(self) -> bool:
        """Whether published bounds are made of true values, which a public grid has to hide."""
        return self.strict

    @property
    def presence(self) -> Presence | None:
        """Windows of the clock that hide whether a row arrived; None: that is not promised."""
        return None

    def leaves_by(self, arrival: float) -> float | None:
        """The latest moment, in seconds, at which a row leaves that arrived then; None: time alone moves nothing."""
        return None if self.max_wait is None else arrival + self.max_wait

    # What `explain` says.

    @abstractmethod
    def becomes(self, role: QuasiIdentifier | Sensitive, numbers: "Numbers | None" = None) -> str:
        """What is published for a column, in one line."""

    @abstractmethod
    def waits(self, *, endless: bool) -> Iterator[str]:
        """How long a row waits, a sentence each. `endless`: the source may be silent for any time."""

    def keeps(self) -> Iterator[str]:
        """What is kept in memory besides pending rows, a sentence each."""
        yield from ()

    @property
    @abstractmethod
    def rows_held(self) -> int | None:
        """The most rows that are held in memory; None: as many as a window of time has."""

    @property
    def accepts_any_value(self) -> bool:
        """Whether no row is rejected for its values: what cannot be read becomes a default, and is randomised."""
        return False

    # What several sites and N shards promise, and what an audit plays.

    @property
    def joint(self) -> Joint | None:
        """How sites publish together; None: a stream publishes alone."""
        return None

    @abstractmethod
    def sharded(self, schema: Schema, *, streaming: bool) -> ShardPromise:
        """What shards that never talk promise together, or why they cannot."""

    def game(self, schema: Schema) -> MembershipGame | None:
        """How `audit dp` plays against the claims about this policy; None: it cannot."""
        return None
