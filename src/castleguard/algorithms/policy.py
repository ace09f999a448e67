"""Contract of an algorithm: other modules ask the policy instead of checking its class.

An algorithm is a folder: `policy.py` (parameters, checks, descriptions), an engine, and modules used by it alone. Its
policy is registered as an entry point of the group `castleguard.algorithms` (`lookup.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from castleguard.algorithms.facts import Joint, MembershipGame, NoiseError, Presence, Publication, ShardPromise
from castleguard.errors import PolicyError
from castleguard.privacy.guarantee import Guarantee
from castleguard.privacy.parameter_fields import Declared, check_parameters, declare
from castleguard.runtime.durations import spell_duration
from castleguard.schema.roles import QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

if TYPE_CHECKING:  # stages import Arrow and the kernels, which a policy does not need
    from castleguard.algorithms.stages import AnyEncoder, Keys, Stages
    from castleguard.release.encode import Numbers

Mode = Literal["strict", "paper"]
Order = Literal["shuffled", "arrival", "input"]
WindowUnit = Literal["seconds", "rows"]
Admission = Literal["lt", "le"]
MAX_DELAY = 1 << 30

# Declarations of parameters that several algorithms have.
MAX_WAIT = declare("Longest wait of a row, in seconds of the stream's clock.", above=0, unit="seconds")
DIVERSITY = declare("Form of l-diversity: distinct values, an entropy of ln l, or recursive (c, l)-diversity.")
RECURSIVE_C = declare("The c of recursive (c, l)-diversity.", above=0)
CLOSENESS = declare("t-closeness of every group to the distribution of all rows.")
WEIGHTS = declare("Weights by which epsilon is split over columns.", default="1 for each column")


def declare_delay(help: str, *, symbol: str = "") -> dict[str, Declared]:
    """Declare the longest wait of a row, in arrivals."""
    return declare(help, least=1, most=MAX_DELAY, too_high="every pending row is kept in memory", symbol=symbol)


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """Parameters of an algorithm, as fields of a frozen dataclass, and its answers to other modules.

    A field declares its help text, bounds, unit and symbol (`field(metadata=declare(...))`,
    `privacy/parameter_fields.py`). Job files, the JSON Schema, command-line options and reference tables are generated
    from the fields.
    """

    name: ClassVar[str]
    """Name in job files, on the command line and in metrics."""
    summary: ClassVar[str]
    """Short description of the published rows, for lists of algorithms."""
    several_sites: ClassVar[bool] = False
    """Whether the policy needs several sites; refused for a single stream."""

    if TYPE_CHECKING:  # parameters or properties that every policy has

        @property
        def k(self) -> int | None:
            """Minimum number of persons, or rows, per published group; None: not guaranteed."""

        @property
        def max_wait(self) -> float | None:
            """Maximum wait of a row in seconds; None: only arrivals count."""

    def __post_init__(self) -> None:
        check_parameters(self)
        for needed in ("k", "max_wait"):
            if not hasattr(self, needed):
                raise PolicyError(f"{self.name} has no {needed}: add a parameter or a property of that name")

    @classmethod
    def for_file(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Complete the given parameters for a file, which has no clock. Raises PolicyError if that is impossible."""
        return dict(given)

    def check(self, schema: Schema) -> None:
        """Raise PolicyError or SchemaError, before the first row, if this policy cannot publish rows of this schema.

        The default creates stages and discards them: a policy whose `stages` call `check` must override it.
        """
        from castleguard.algorithms.stages import make_keys

        self.stages(schema, make_keys(seed=0))

    @abstractmethod
    def stages(self, schema: Schema, keys: "Keys", *, numbers: "Numbers | None" = None) -> "Stages":
        """Create the stages of a stream."""

    @abstractmethod
    def encoder(self, schema: Schema, numbers: "Numbers | None" = None) -> "AnyEncoder":
        """Create the encoder alone, which defines names and types of the published columns."""

    @abstractmethod
    def guarantee(self, schema: Schema, *, seeded: bool) -> Guarantee:
        """Privacy statement for a stream of this schema."""

    @abstractmethod
    def fingerprint(self) -> dict[str, object]:
        """Canonical description, serialisable as JSON: equal iff two policies make the same decisions."""

    @abstractmethod
    def publication(self, schema: Schema) -> Publication:
        """Checkable properties of a published table."""

    # Used by streams and jobs.

    @property
    def strict(self) -> bool:
        """Whether the guarantee also holds where the paper's algorithm breaks it."""
        return True

    @property
    def timed(self) -> bool:
        """Whether the stream needs to know the time."""
        return self.max_wait is not None

    @property
    def chosen_order(self) -> Order:
        """Order of published rows."""
        return "shuffled"

    @property
    def draws_noise(self) -> bool:
        """Whether publishing the same rows again uses new draws, and so spends their budget again."""
        return True

    @property
    def publishes_values(self) -> bool:
        """Whether published bounds derive from true values, which a public grid must hide."""
        return self.strict

    @property
    def presence(self) -> Presence | None:
        """Clock windows that hide whether a row arrived; None: not guaranteed."""
        return None

    def leaves_by(self, arrival: float) -> float | None:
        """Latest time, in seconds, at which a row that arrived at `arrival` leaves; None: no time limit."""
        return None if self.max_wait is None else arrival + self.max_wait

    # Used by `explain`.

    @abstractmethod
    def becomes(self, role: QuasiIdentifier | Sensitive, numbers: "Numbers | None" = None) -> str:
        """Describe in one line how a column is published."""

    @abstractmethod
    def waits(self, *, endless: bool) -> Iterator[str]:
        """Describe how long a row waits, in sentences. `endless`: the source may be idle indefinitely."""

    def keeps(self) -> Iterator[str]:
        """Describe the state kept in memory besides pending rows, in sentences."""
        yield from ()

    def noise_errors(self, schema: Schema) -> tuple[NoiseError, ...]:
        """What the noise does to a value of each column on average, if that is known before there are rows."""
        return ()

    @property
    @abstractmethod
    def rows_held(self) -> int | None:
        """Maximum number of rows held in memory; None: all rows of a time window."""

    @property
    def accepts_any_value(self) -> bool:
        """Whether no row is rejected for its values: unreadable values become a default and are randomised."""
        return False

    # Used by sites, shards and audits.

    @property
    def joint(self) -> Joint | None:
        """Parameters of a release across sites; None: a stream publishes alone."""
        return None

    @abstractmethod
    def sharded(self, schema: Schema, *, streaming: bool) -> ShardPromise:
        """Guarantee of independent shards together, or why they are refused."""

    def game(self, schema: Schema) -> MembershipGame | None:
        """Parameters of the membership game of `audit dp`; None: not supported."""
        return None


def describe_wait(delay: int, max_wait: float | None, *, endless: bool) -> Iterator[str]:
    """Describe how long a row waits for `delay` arrivals, or for `max_wait` seconds, in sentences."""
    yield f"A row leaves at the latest when {delay:,} more rows have arrived."
    if max_wait is not None:
        yield f"It also leaves after {spell_duration(max_wait)}, even if nothing else arrives."
    elif endless:
        yield "Without max_wait, rows wait as long as the source is silent."
