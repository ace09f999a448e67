"""SDGS policy: truthful rows under differential privacy, by sampling, a public grid and suppression."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from castleguard.algorithms.facts import MembershipGame, Presence, Publication, ShardPromise
from castleguard.algorithms.policy import DIVERSITY, RECURSIVE_C, Policy, WindowUnit
from castleguard.errors import PolicyError, SchemaError
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.composition import group
from castleguard.privacy.criteria import ColumnFacts, Criteria
from castleguard.privacy.diversity import Diversity
from castleguard.privacy.guarantee import SEED, SYSTEM, DifferentialPrivacy, Guarantee
from castleguard.privacy.parameter_fields import declare, parameter
from castleguard.privacy.parameters import LARGEST_COUNT, check_count, check_sampling
from castleguard.privacy.sdgs import sdgs_delta, worst_case
from castleguard.runtime.durations import spell_duration
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

if TYPE_CHECKING:
    from castleguard.algorithms.stages import Keys, Stages
    from castleguard.release.encode import Encoder, Numbers


Unit = Literal["person", "row"]


@dataclass(frozen=True, kw_only=True)
class Sdgs(Policy):
    """(k, beta)-SDGS for streams: sample, generalise by a public grid, suppress below k, window by window.

    Li, Qardaji and Su (ASIACCS 2012) for a table; Theorem 2 of CASTLEGUARD (Robinson, Brown, Hall, Jackson, Kemp and
    Leeke) gives delta. Published rows are true, and a row is published with a probability of at most `sample_rate`.
    See docs/concepts/sdgs.md, and docs/proofs/sdgs.md for the proof.
    """

    name: ClassVar[str] = "sdgs"
    summary: ClassVar[str] = "true rows under differential privacy"

    k: int = field(
        metadata=declare(
            "Minimum number of rows of a window with the same box and sensitive values; smaller cells are suppressed.",
            least=2,
            too_low="k=1 publishes rows unprotected",
        )
    )
    sample_rate: float = field(
        metadata=declare(
            "Probability that a row takes part.",
            above=0,
            below=1,
            too_high="sample_rate 1 keeps every row, so there is no differential privacy to account for",
            symbol="the papers' beta",
        )
    )
    epsilon: float = field(
        metadata=declare("At least -ln(1 - sample_rate); delta follows from k, sample_rate and epsilon.", least=0)
    )
    window: float = field(metadata=declare("Length of a window.", above=0, unit="seconds", unit_from="window_unit"))
    window_unit: WindowUnit = parameter("seconds", "Unit of the window; rows does not hide that a row arrived.")
    unit: Unit = parameter(
        "person",
        "What is protected: all rows of a person in one window, of which one is used (person), or one row (row).",
    )
    l: int = parameter(  # as named in the papers
        1, "Distinct values of every sensitive column per published box and window.", least=1
    )
    diversity: Diversity = field(default="distinct", metadata=DIVERSITY)
    c: float | None = field(default=None, metadata=RECURSIVE_C)
    closeness: Closeness | None = parameter(
        None, "t-closeness of every box of a window to the rows released so far, or to public shares."
    )
    adapt: bool = parameter(True, "Whether the grid follows the released rows.")
    max_cells: int = parameter(1024, "Maximum number of boxes of the grid.", least=1, most=LARGEST_COUNT)
    start_cells: int = parameter(1, "Boxes of the first grid: the domain, cut evenly.", least=1, most=LARGEST_COUNT)
    survival: float = parameter(
        0.75, "Share of a box's released rows that must be expected to survive a split.", above=0, most=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.criteria  # noqa: B018  # checks k, l and the other criteria
        if self.closeness is not None and self.closeness.reference not in ("cumulative", "public"):
            raise PolicyError(
                f"SDGS compares with released rows or with public shares: reference must be 'cumulative' or "
                f"'public', got {self.closeness.reference!r}"
            )
        check_sampling(sample_rate=self.sample_rate, epsilon=self.epsilon)
        self._check_window()
        if self.start_cells > self.max_cells:
            raise PolicyError(
                f"start_cells must not be above max_cells, got start_cells={self.start_cells} "
                f"and max_cells={self.max_cells}"
            )

    @classmethod
    def for_file(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Treat a file as one window that arrives at once, unless windows count rows."""
        if "window" in given or not {"k", "sample_rate", "epsilon"} <= given.keys():
            return dict(given)
        if "start_cells" not in given:
            raise PolicyError(
                "a file is one window, and the grid of sdgs starts as one box: cut it with start_cells, or use windows "
                "that it can learn from (window 10000, window_unit rows)"
            )
        return {**given, "window": 1.0}

    @property
    def criteria(self) -> Criteria:
        """Criteria that the gate checks, on rows."""
        return Criteria(k=self.k, l=self.l, diversity=self.diversity, c=self.c, closeness=self.closeness)

    @property
    def publishes_values(self) -> bool:
        """Whether published bounds derive from true values: here they are edges of a public grid."""
        return False

    @property
    def max_wait(self) -> float | None:
        """Maximum wait of a row in seconds: the window, if windows are of time."""
        return float(self.window) if self.window_unit == "seconds" else None

    @cached_property
    def dp_delta(self) -> float:
        """Delta of one row that takes part in one window, by Theorem 2."""
        return sdgs_delta(k=self.k, sample_rate=self.sample_rate, epsilon=self.epsilon)

    def window_at(self, now: float, position: int) -> int:
        """Number of the window of a row, by its arrival in seconds or in rows."""
        return math.floor(now / self.window) if self.window_unit == "seconds" else position // int(self.window)

    @property
    def presence(self) -> Presence | None:
        """Clock windows that hide whether a row arrived; windows of rows would shift without it."""
        return Presence(window=self.window) if self.window_unit == "seconds" else None

    @property
    def rows_held(self) -> int | None:
        """Maximum number of rows held in memory."""
        return int(self.window) if self.window_unit == "rows" else None

    def leaves_by(self, arrival: float) -> float | None:
        """End of the window of a row that arrived at `arrival`; None: windows count rows."""
        return None if self.max_wait is None else (self.window_at(arrival, 0) + 1) * self.max_wait

    def unit_for(self, schema: Schema) -> Unit:
        """Effective unit of protection: without a person column, every row counts as a person."""
        return "row" if schema.person is None else self.unit

    def stages(self, schema: Schema, keys: "Keys", *, numbers: "Numbers | None" = None) -> "Stages":
        """Create the stages of a stream."""
        from castleguard.algorithms.sdgs.stages import sdgs_stages

        return sdgs_stages(self, schema, keys, numbers)

    def encoder(self, schema: Schema, numbers: "Numbers | None" = None) -> "Encoder":
        """Create the encoder of boxes."""
        from castleguard.release.encode import Encoder

        return Encoder(schema, numbers=numbers or "bounds")

    def becomes(self, role: QuasiIdentifier | Sensitive, numbers: "Numbers | None" = None) -> str:
        """Describe in one line how a column is published."""
        if isinstance(role, Sensitive):
            return "one of its declared values, as it is"
        from castleguard.algorithms.words import boxed

        return boxed(role, numbers)

    def waits(self, *, endless: bool) -> Iterator[str]:
        """Describe how long a row waits, in sentences."""
        if self.presence is None:
            yield f"A row waits for the end of its window, {self.window:,} rows."
        else:
            span = spell_duration(float(self.window))
            yield f"A row waits for the end of its window, {span}, and is delivered {self.presence.lag:g} s later."

    def publication(self, schema: Schema) -> Publication:
        """Checkable properties of a published table."""
        return Publication(
            form="cells",
            publishes_labels=True,
            criteria=self.criteria,
            window_rows=int(self.window) if self.window_unit == "rows" else None,
            one_row_per_person=schema.person is None or self.unit_for(schema) == "person",
            why_no_delay="Rows wait for the end of their window, which a file does not show.",
        )

    def sharded(self, schema: Schema, *, streaming: bool) -> ShardPromise:
        """Guarantee of independent shards together."""
        refused = None
        if streaming and self.window_unit == "rows":
            refused = (
                "a stream needs window_unit='seconds': with 'rows' a shard would hold the rows of an unfinished window "
                "until enough others arrive, possibly forever"
            )
        elif streaming and self.adapt and self.start_cells > 1:
            refused = (
                f"start_cells must be 1 in a stream, got {self.start_cells}: a shard starts with its first row, and a "
                f"grid of several boxes would reveal when that arrived; or set adapt=False"
            )
        return ShardPromise(
            refused=refused,
            closeness=self.closeness,
            counts_persons=self.unit_for(schema) == "person",
            hides_presence=self.presence is not None,
            has_window=self.window_unit == "seconds",
        )

    def game(self, schema: Schema) -> MembershipGame:
        """Parameters of the membership game, among rows that are just below publication."""
        return MembershipGame(
            window_rows=self.window if self.window_unit == "rows" else None,
            critical_group=worst_case(k=self.k, sample_rate=self.sample_rate, epsilon=self.epsilon).rows,
            rows_per_group=self.k / self.sample_rate,
            fills_windows=1 if self.window_unit == "seconds" else 2,
            l=self.l,
            period=float(self.window),
        )

    def fingerprint(self) -> dict[str, object]:
        """Canonical description, serialisable as JSON: equal iff two policies make the same decisions."""
        closeness = None if self.closeness is None else self.closeness.fingerprint()
        return {**asdict(replace(self, closeness=None)), "closeness": closeness, "algorithm": self.name}

    def check(self, schema: Schema) -> None:
        """Refuse a schema for which the claim would not hold."""
        if schema.public:
            raise SchemaError(
                f"SDGS cannot publish {', '.join(schema.public)} unchanged: "
                f"declare each as a quasi-identifier or as sensitive, or leave it out of the schema"
            )
        for role in schema.quasi_identifiers:
            if isinstance(role, Numeric) and role.domain is None:
                raise SchemaError(f"column {role.name!r}: SDGS needs lower and upper, because its grid must be public")
        for sensitive in schema.sensitive:
            if sensitive.labels is None:
                raise SchemaError(
                    f"column {sensitive.name!r}: SDGS needs its public values (values=, hierarchy= or bins=), "
                    f"because it counts and publishes rows by them"
                )
        self.criteria.check_columns(
            {role.name: ColumnFacts(len(role.labels or ()), role.hierarchy is not None) for role in schema.sensitive}
        )

    def guarantee(self, schema: Schema, *, seeded: bool) -> Guarantee:
        """Privacy statement for a stream of this schema."""
        self.check(schema)
        return Guarantee(
            promise=self._promise(schema),
            limits=tuple(self._limits(schema, seeded)),
            k=self.k,
            l=self.l,
            delay=int(self.window) - 1 if self.window_unit == "rows" else None,
            max_wait=self.max_wait,
            privacy=self._privacy(schema, seeded),
        )

    def _check_window(self) -> None:
        if self.window_unit == "rows" and check_count("window", self.window) < self.k:
            raise PolicyError(
                f"window must be at least k, got window={self.window} rows and k={self.k}: nothing would be published"
            )

    def _promise(self, schema: Schema) -> str:
        by_person = self.unit_for(schema) == "person"
        alike = "the same box" + (" and the same sensitive values" if schema.sensitive else "")
        promise = f"Every published row has {alike} as at least {self.k - 1} other rows of its window"
        promise += ", each of another person." if by_person else "."
        if self.l > 1:
            names = " and of ".join(role.name for role in schema.sensitive)
            promise += f" Every box of a window has at least {self.l} distinct values of {names}."
        if self.diversity == "entropy":
            promise += f" Their entropy is at least ln {self.l}."
        if self.diversity == "recursive":
            promise += f" They are recursively ({self.c:g}, {self.l})-diverse."
        if self.closeness is not None:
            promise += f" Its values keep {self.closeness}, where rows are those of cells with at least {self.k} rows."
        wait = f"{self.window:g} s by the given clock" if self.max_wait else f"{self.window - 1} arrivals"
        return f"{promise} A row takes part with probability {self.sample_rate:g}, and leaves within {wait}."

    def _privacy(self, schema: Schema, seeded: bool) -> DifferentialPrivacy:
        by_person = self.unit_for(schema) == "person"
        if self.window_unit == "seconds":
            epsilon, dp_delta = float(self.epsilon), self.dp_delta
            neighbours = "with and without them" if by_person else "with and without it"
        else:
            # Replacing values is two steps: remove the old ones, add the new ones.
            both = group(epsilon=self.epsilon, dp_delta=self.dp_delta, size=2)
            epsilon, dp_delta = both.epsilon, both.dp_delta
            neighbours = f"{'their' if by_person else 'its'} values replaced by any others that the schema accepts"
        return DifferentialPrivacy(
            epsilon=epsilon,
            dp_delta=dp_delta,
            unit="all rows of one person in one window" if by_person else "one row",
            neighbours=neighbours,
            horizon="the whole stream",
            covered=tuple(role.name for role in (*schema.quasi_identifiers, *schema.sensitive)),
            randomness=SEED if seeded else SYSTEM,
        )

    def _limits(self, schema: Schema, seeded: bool) -> Iterator[str]:
        """Limits of the guarantee, in sentences."""
        if self.unit_for(schema) == "person":
            yield "k counts rows, which are persons because a person has one row at most in a window."
            yield "Rows without a person count as rows of one person: each of them alone is not protected."
            yield (
                "Windows of one person add up: over c of them (c epsilon, c delta), or less by advanced composition; "
                "`castleguard budget --windows c` computes it."
            )
        else:
            if self.unit == "person":
                yield "The schema has no person column, so only single rows are protected."
            yield "k counts rows, not persons: rows of one person may be in one group, and their losses add up."
        if self.presence is not None:
            yield "The times of push, tick and flush must come from an external clock, independent of the rows."
            yield "A flush drops the unfinished window, so that a window has one release, at its end."
            yield (
                f"A job delivers a window {self.presence.lag:g} s after its end, and never before: names, numbers, "
                f"headers, sizes and times at the sink follow from the published rows and the clock. Outside the "
                f"claim: the lateness of a job that was down or too slow, and the window of a row that is read late, "
                f"from a backlog."
            )
        else:
            yield "That a row arrived, and when, is not hidden."
        yield "Bounds, hierarchies and values of the schema are taken as public."
        yield (
            "Reports, logs, metrics and dead letters depend on rows that were not published: they are for the operator "
            "alone."
        )
        if seeded:
            yield "SEEDED: the sampled rows can be predicted; for tests and experiments only."
