"""DOCA policy: noisy means of groups of rows, as printed or with a valid privacy claim.

Leal, Vidal, Machado: Anonimização de Streaming de Dados em DOCA, 2018. The paper's claim of differential privacy does
not hold, because its groups depend on the data; strict mode forms groups for which it does (docs/proofs/doca.md).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

from castleguard.algorithms.facts import MembershipGame, PrintedClaim, Publication, ShardPromise
from castleguard.algorithms.policy import (
    MAX_WAIT,
    WEIGHTS,
    Admission,
    Mode,
    Order,
    Policy,
    declare_delay,
    describe_wait,
)
from castleguard.errors import PolicyError, SchemaError
from castleguard.privacy.epsilon_shares import Shares, exact, float_above, share_epsilon
from castleguard.privacy.guarantee import SEED, SYSTEM, DifferentialPrivacy, Guarantee
from castleguard.privacy.parameter_fields import declare, parameter
from castleguard.privacy.parameters import LARGEST_COUNT, is_number
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

if TYPE_CHECKING:
    from castleguard.algorithms.stages import Keys, Stages
    from castleguard.release.encode import Numbers, PointEncoder

RANGES = 1.5
"""Sensitivity in the paper, in multiples of the column's range."""


@dataclass(frozen=True, kw_only=True)
class Doca(Policy):
    """DOCA: every number is published as the noisy mean of a group of rows, in the same column.

    Strict, the default: windows of `delay` rows, each column sorted and cut into runs of k, exact noise on their sums,
    noisy counts of labels; each column is shuffled, so that no value belongs to a row. Paper: online clusters by
    enlargement, one Laplace draw per published cluster, and no claim.
    """

    name: ClassVar[str] = "doca"
    summary: ClassVar[str] = "noisy means of groups of rows"

    epsilon: float = field(
        metadata=declare(
            "Strict: privacy loss of a row, or of a person in a window, over all columns. Paper: noise of scale "
            "sensitivity / (size * epsilon).",
            above=0,
        )
    )
    delay: int = field(
        metadata=declare_delay("Strict: rows per window, at least k. Paper: longest wait of a row, in arrivals.")
    )
    k: int | None = parameter(
        None,
        "Strict: rows per run, which share one published number. Paper: not supported.",
        least=1,
        most=LARGEST_COUNT,
        default="required in strict mode",
    )
    max_wait: float | None = field(default=None, metadata=MAX_WAIT)
    weights: Mapping[str, float] | None = field(default=None, metadata=WEIGHTS)
    rows_per_person: int | None = parameter(
        None,
        "Maximum number of rows of a person used per window; others are left out. The noise grows with this number.",
        least=1,
        most=LARGEST_COUNT,
    )
    mode: Mode = parameter("strict", "strict has a valid privacy claim; paper is the published algorithm.")
    max_clusters: int = parameter(
        50, "Paper: maximum number of open clusters.", least=1, most=LARGEST_COUNT, symbol="DOCA's beta"
    )
    loss_window: int = parameter(
        100,
        "Paper: number of recently published clusters whose mean loss is the threshold.",
        least=1,
        most=LARGEST_COUNT,
        symbol="DOCA's m",
    )
    sensitivity: float | Mapping[str, float] | None = parameter(
        None,
        "Paper: how much one row can change a number, for all columns or by column.",
        above=0,
        too_low="with 0 the true means would be published",
        default="1.5 times the declared range",
    )
    admission: Admission = parameter(
        "lt", "Paper: whether a loss equal to the threshold is admitted (le, the authors' code) or not (lt)."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, weight in (self.weights or {}).items():
            exact(f"the weight of {name!r}", weight)
        if self.strict:
            self._check_strict()
        else:
            self._check_paper()

    @property
    def strict(self) -> bool:
        """Whether differential privacy is claimed."""
        return self.mode == "strict"

    @property
    def publishes_values(self) -> bool:
        """Whether published bounds derive from true values: DOCA publishes no bounds."""
        return False

    @property
    def chosen_order(self) -> Order:
        """Order of the rows of one release: shuffled column by column, or by arrival."""
        return "shuffled" if self.strict else "arrival"

    @property
    def run(self) -> int:
        """Strict: number of rows per run, k."""
        assert self.k is not None
        return self.k

    @property
    def contributions(self) -> int:
        """Rows of a person that the noise covers, at most as many as a window or a cluster can hold."""
        return 1 if self.rows_per_person is None else min(self.rows_per_person, self.delay + (not self.strict))

    def shares(self, schema: Schema) -> Shares:
        """Epsilon of every column."""
        return share_epsilon(schema.described, epsilon=self.epsilon, weights=self.weights)

    def sensitivities(self, schema: Schema) -> dict[str, float]:
        """Paper: sensitivity of each number to one row."""
        numbers = [role for role in schema.quasi_identifiers if isinstance(role, Numeric)]
        given = self.sensitivity
        if is_number(given):
            if len(numbers) > 1:
                names = ", ".join(f"{role.name!r}: ..." for role in numbers)
                raise SchemaError(
                    f"sensitivity is one number, but the schema has {len(numbers)} numeric columns: give {{{names}}}"
                )
            given = {role.name: given for role in numbers}
        known: Mapping[str, float] = given if isinstance(given, Mapping) else {}
        unknown = sorted(known.keys() - {role.name for role in numbers})
        if unknown:
            raise SchemaError(f"sensitivity names {unknown[0]!r}, which is not a numeric column of the schema")
        found = {}
        for role in numbers:
            if role.name not in known and role.domain is None:
                raise SchemaError(
                    f"column {role.name!r}: DOCA needs lower and upper, or the sensitivity: a range taken from the "
                    f"data is unknown until the stream ends, and reveals its extremes"
                )
            low, high = role.domain or (0.0, 0.0)
            found[role.name] = float(known.get(role.name, RANGES * (high - low)))
        return found

    def stages(self, schema: Schema, keys: "Keys", *, numbers: "Numbers | None" = None) -> "Stages":
        """Create the stages of a stream."""
        from castleguard.algorithms.doca.stages import doca_stages

        return doca_stages(self, schema, keys, numbers)

    def encoder(self, schema: Schema, numbers: "Numbers | None" = None) -> "PointEncoder":
        """Create the encoder of points."""
        if numbers is not None:
            raise PolicyError(
                f"numbers={numbers!r} sets the form of ranges, but DOCA publishes numbers, not ranges: omit it"
            )
        from castleguard.release.encode import PointEncoder

        return PointEncoder(schema, sensitive=self.strict)

    def becomes(self, role: QuasiIdentifier | Sensitive, numbers: "Numbers | None" = None) -> str:
        """Describe in one line how a column is published."""
        if isinstance(role, Sensitive):
            counted = "repeated by its noisy count" if self.strict else "randomised"
            return f"one of its declared values, {counted}"
        if isinstance(role, Categorical):
            leaves = role.hierarchy.leaves
            return f"one of {len(leaves)} labels such as {leaves[0]}, repeated by its noisy count"
        from castleguard.algorithms.words import domain

        return f"the noisy mean of a group of values, {domain(role)}"

    def waits(self, *, endless: bool) -> Iterator[str]:
        """Describe how long a row waits, in sentences."""
        return describe_wait(self.delay, self.max_wait, endless=endless)

    @property
    def rows_held(self) -> int | None:
        """Maximum number of rows held in memory."""
        return self.delay + (not self.strict)

    @property
    def accepts_any_value(self) -> bool:
        """Whether no row is rejected for its values."""
        return self.strict

    def publication(self, schema: Schema) -> Publication:
        """Checkable properties of a published table."""
        return Publication(
            form="points",
            publishes_labels=True,
            criteria=None,
            hides_values=self.strict,
            closed=not self.strict,
            window_rows=self.delay,
            why_no_delay="Rows wait for the end of their window, which a file does not show.",
            refused_by_sweep=None
            if self.strict
            else "paper-mode doca claims nothing and has no minimum group size: no risk can be compared with its error",
        )

    def sharded(self, schema: Schema, *, streaming: bool) -> ShardPromise:
        """Guarantee of independent shards together."""
        return ShardPromise(counts_persons=self.rows_per_person is not None)

    def game(self, schema: Schema) -> MembershipGame:
        """Parameters of the membership game: neighbours differ in values, in paper mode too."""
        printed = PrintedClaim("the DOCA paper", float(self.epsilon), 0.0)
        return MembershipGame(
            replaced=True,
            printed=None if self.strict else lambda _: printed,
            window_rows=self.delay,
            rows_per_group=self.k or 1,
            longest_delay=self.delay,
            period=self.max_wait,
        )

    def fingerprint(self) -> dict[str, object]:
        """Canonical description, serialisable as JSON: equal iff two policies make the same decisions."""
        return {**asdict(self), "algorithm": self.name}

    def check(self, schema: Schema) -> None:
        """Refuse a schema that this policy cannot publish."""
        self.shares(schema)
        if self.rows_per_person is not None and schema.person is None:
            raise PolicyError("rows_per_person needs a person column in the schema, to count the rows of a person")
        if self.strict:
            self._check_windows(schema)
        else:
            self._check_groups(schema)

    def guarantee(self, schema: Schema, *, seeded: bool) -> Guarantee:
        """Privacy statement for a stream of this schema."""
        self.check(schema)
        return Guarantee(
            promise=self._promise(schema),
            limits=tuple(self._strict_limits(schema) if self.strict else self._paper_limits(schema))
            + (("SEEDED: the noise can be predicted; for tests and experiments only.",) if seeded else ()),
            k=self.k,
            delay=self.delay - 1 if self.strict else self.delay,
            max_wait=self.max_wait,
            privacy=self._claim(schema, seeded) if self.strict else None,
        )

    def _check_strict(self) -> None:
        if self.k is None:
            raise PolicyError("strict DOCA needs k, the number of rows that share one published number")
        if self.delay < self.k:
            raise PolicyError(
                f"delay must be at least k, got delay={self.delay} and k={self.k}: no window could be published"
            )
        defaults = {each.name: each.default for each in fields(self)}
        for name in ("max_clusters", "loss_window", "sensitivity", "admission"):
            if getattr(self, name) != defaults[name]:
                raise PolicyError(f"{name} belongs to mode='paper': strict mode has no clusters")

    def _check_paper(self) -> None:
        if self.k is not None:
            raise PolicyError("k belongs to strict mode: the paper has no minimum group size")
        by_column = self.sensitivity if isinstance(self.sensitivity, Mapping) else {}
        for name, value in by_column.items():
            if not (is_number(value) and 0 < value < math.inf):
                raise PolicyError(
                    f"the sensitivity of {name!r} must be a finite number above 0, got {value}: with 0 the true means "
                    f"would be published"
                )

    def _check_windows(self, schema: Schema) -> None:
        if schema.public:
            raise SchemaError(
                f"strict DOCA cannot publish {', '.join(schema.public)} unchanged: "
                f"declare each as a quasi-identifier or as sensitive, or leave it out of the schema"
            )
        from castleguard.schema.levels import check_declared

        check_declared(schema)

    def _check_groups(self, schema: Schema) -> None:
        if not any(isinstance(role, Numeric) for role in schema.quasi_identifiers):
            raise SchemaError("paper-mode DOCA needs a numeric quasi-identifier: it groups rows by numbers")
        from castleguard.schema.levels import check_labels

        check_labels(schema)
        self.sensitivities(schema)
        for role in schema.quasi_identifiers:
            answers = (role.null, role.unknown) if isinstance(role, Categorical) else (role.null, role.outside)
            if "root" in answers or (isinstance(role, Numeric) and role.invalid == "root"):
                raise SchemaError(f"column {role.name!r}: DOCA cannot publish a row at the root: use 'reject'")

    def _promise(self, schema: Schema) -> str:
        labels = any(isinstance(role, Categorical) for role in schema.quasi_identifiers) or bool(schema.sensitive)
        wait = "" if self.max_wait is None else f", and no later than {self.max_wait:g} s by the given clock"
        if self.strict:
            text = f"Every published number is the noisy mean of at least {self.k} rows of one window of {self.delay}"
            text += ", and labels are as frequent as their noisy counts say." if labels else "."
            return f"{text} A row leaves no later than {self.delay - 1} arrivals after its own{wait}."
        text = "Every published number is the noisy mean of a group of rows, which may be a single one"
        text += ", and every label is a randomised response." if labels else "."
        return f"{text} A row leaves no later than {self.delay} arrivals after its own{wait}."

    def _claim(self, schema: Schema, seeded: bool) -> DifferentialPrivacy:
        by_person = self.rows_per_person is not None
        return DifferentialPrivacy(
            epsilon=float_above(exact("epsilon", self.epsilon)),
            dp_delta=0.0,
            unit="all rows of one person in one window" if by_person else "one row",
            neighbours=f"{'their' if by_person else 'its'} values replaced by any others",
            horizon="the whole stream",
            covered=schema.described,
            uncovered=("that a row is there, whose it is and when it came",),
            randomness=SEED if seeded else SYSTEM,
        )

    def _strict_limits(self, schema: Schema) -> Iterator[str]:
        """Meaning and limits of the guarantee, in sentences."""
        yield (
            "No value belongs to a row: each column of a window is shuffled independently, so the values of one output "
            "line are together by chance."
        )
        yield (f"Fewer than {self.k} rows are dropped, in a window or in the rest of one after a flush or max_wait.")
        if self.rows_per_person is not None:
            yield "Windows of one person add up: over w of them the loss is w times epsilon."
            yield "Rows without a person count as those of one person."
        elif schema.person is not None:
            yield "A person with n rows has n times this epsilon: rows_per_person would bound it within a window."
        yield "k counts rows, not persons. The bounds and values in the schema are taken to be public."
        yield "A malformed line of a file is not a row and never gets here: its absence is not covered."
        yield "Reports and counters are for the operator: they are not covered."

    def _paper_limits(self, schema: Schema) -> Iterator[str]:
        """Limits of the guarantee, in sentences."""
        yield (
            f"NO differential privacy, although the paper claims {self.epsilon:g}: which rows form a group, how many "
            f"they are and when they leave depends on all values, and is visible."
        )
        yield "A group may be a single row. Not promised: k-anonymity, or anything else."
        if schema.public:
            yield f"Published as they are: {', '.join(schema.public)}."
