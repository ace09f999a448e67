"""CASTLE policy: privacy criteria, delay, and choices that the paper leaves open."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from castleguard.algorithms.facts import Publication
from castleguard.algorithms.group_policy import DELAY_HELP, GroupPolicy
from castleguard.algorithms.policy import (
    CLOSENESS,
    DIVERSITY,
    RECURSIVE_C,
    Admission,
    Mode,
    Order,
    declare_delay,
    describe_wait,
)
from castleguard.errors import PolicyError
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.criteria import CountedPer, Criteria
from castleguard.privacy.diversity import Diversity
from castleguard.privacy.guarantee import Guarantee
from castleguard.privacy.parameter_fields import check_parameters, declare, parameter
from castleguard.schema.roles import Schema

if TYPE_CHECKING:
    from castleguard.algorithms.stages import Keys, Stages
    from castleguard.release.encode import Numbers

Suppression = Literal["root", "generalise", "drop"]
Reuse = Literal["paper", "off"]

_PAIRS_PER_BOX = 64  # pairs remembered per reusable box, on average


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Choices that the paper leaves open. None of them affects the guarantee; see docs/concepts/castle.md."""

    tie_break: Literal["oldest", "random"] = field(metadata=declare("Choice between equally good clusters."))
    containment: Literal["generalisation", "interval"] = field(
        metadata=declare("What a published cluster contains when it is reused: its generalisation or its intervals.")
    )
    admission: Admission = field(
        metadata=declare("Whether a loss equal to the threshold is admitted (le) or not (lt).")
    )
    representatives: Literal["balanced", "random"] = field(
        metadata=declare("Which row represents a person in split^l.")
    )
    merge: Literal["diversity_aware", "paper"] = field(
        metadata=declare("Whether merging a cluster that lacks only l prefers new values among equally near clusters.")
    )
    first_threshold: float = parameter(
        0.0, "Threshold before the first publication: 0 opens new clusters, 1 fills the first one.", least=0, most=1
    )

    def __post_init__(self) -> None:
        check_parameters(self)


STRICT = Reading(
    tie_break="oldest",
    containment="generalisation",
    admission="le",
    representatives="balanced",
    merge="diversity_aware",
)
PAPER = Reading(tie_break="random", containment="interval", admission="lt", representatives="random", merge="paper")


@dataclass(frozen=True, kw_only=True)
class Castle(GroupPolicy):
    """CASTLE (Cao, Carminati, Ferrari, Tan: IEEE TDSC 8(3), 2011), strict (repaired) or as printed.

    Strict, the default, keeps the guarantee where the paper's algorithm breaks it. Paper is for research: the engine
    decides as printed, and the gate still suppresses groups that do not meet the criteria.
    """

    name: ClassVar[str] = "castle"
    summary: ClassVar[str] = "k-anonymous groups of true rows"

    delay: int = field(metadata=declare_delay(DELAY_HELP, symbol="CASTLE's delta"))
    max_clusters: int = parameter(
        50, "Maximum number of open clusters.", least=1, symbol="CASTLE's beta, CASTLEGUARD's b"
    )
    loss_window: int = parameter(
        100, "Number of recently published clusters whose mean loss is the threshold.", least=1, symbol="CASTLE's mu"
    )
    max_reusable: int = parameter(
        1000, "Maximum number of generalisations kept for reuse.", least=1, symbol="a bound on CASTLE's Omega"
    )
    reusable_age: int | None = parameter(None, "Arrivals for which a generalisation can be reused.", least=0)
    mode: Mode = parameter(
        "strict", "strict keeps the promise where the paper breaks it; paper follows the paper as printed."
    )
    reuse: Reuse = parameter("paper", "Whether a late row may join a published group (paper) or is merged (off).")
    suppression: Suppression | None = parameter(
        None,
        "What happens to a row that fits no cluster: root publishes it at the root, drop suppresses it, generalise "
        "publishes it alone (paper mode only).",
        default="by mode: root or generalise",
    )
    order: Order | None = parameter(
        None,
        "Order of the rows of a release; input keeps the input order of all rows.",
        default="by mode: shuffled or arrival",
    )
    l_per: CountedPer = parameter("row", "person: the l distinct values must be held by l different persons.")
    diversity: Diversity = field(default="distinct", metadata=DIVERSITY)
    c: float | None = field(default=None, metadata=RECURSIVE_C)
    closeness: Closeness | None = field(default=None, metadata=CLOSENESS)
    reading: Reading | None = parameter(None, "Choices that the paper leaves open.", default="by mode")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode == "strict" and self.suppression == "generalise":
            raise PolicyError("suppression='generalise' publishes rows alone at the root: use 'root' or mode='paper'")

    @property
    def criteria(self) -> Criteria:
        """Criteria that the gate checks."""
        return replace(super().criteria, l_per=self.l_per)

    @property
    def remembered_pairs(self) -> int:
        """Published (person, value) pairs that engine and gate remember per sensitive column, if criteria need them.

        The limit covers all rows that can be pending; when it is exceeded, all pairs are forgotten.
        """
        return self.delay + 1 + _PAIRS_PER_BOX * self.max_reusable

    @property
    def strict(self) -> bool:
        """Whether the guarantee also holds where the paper's algorithm breaks it."""
        return self.mode == "strict"

    @property
    def counted(self) -> str:
        """Unit of the delay, for texts."""
        return "arrivals"

    @property
    def chosen_suppression(self) -> Suppression:
        """Effective suppression."""
        return self.suppression or ("root" if self.strict else "generalise")

    @property
    def chosen_order(self) -> Order:
        """Effective order of rows."""
        return self.order or ("shuffled" if self.strict else "arrival")

    @property
    def chosen_reading(self) -> Reading:
        """Effective reading."""
        return self.reading or (STRICT if self.strict else PAPER)

    def stages(self, schema: Schema, keys: "Keys", *, numbers: "Numbers | None" = None) -> "Stages":
        """Create the stages of a stream."""
        from castleguard.algorithms.castle.stages import castle_stages

        return castle_stages(self, schema, keys, numbers)

    def waits(self, *, endless: bool) -> Iterator[str]:
        """Describe how long a row waits, in sentences."""
        return describe_wait(self.delay, self.max_wait, endless=endless)

    def publication(self, schema: Schema) -> Publication:
        """Checkable properties of a published table."""
        together = self.reuse == "off" and self.chosen_order != "input"  # input order spreads a release over time
        return Publication(
            form="boxes",
            criteria=self.criteria,
            closed=not self.strict,
            delay=self.delay,
            each_release="persons" if together else "nothing",
            due_rows=True,
        )

    def fingerprint(self) -> dict[str, object]:
        """Canonical description, serialisable as JSON: equal iff two policies make the same decisions."""
        chosen = {"suppression": self.chosen_suppression, "reading": asdict(self.chosen_reading)}
        return {**super().fingerprint(), **chosen}

    def closeness_words(self, closeness: Closeness) -> str:
        """Describe t-closeness to the rows that have arrived, or to public shares."""
        return str(closeness)

    def guarantee(self, schema: Schema, *, seeded: bool) -> Guarantee:
        """Privacy statement for a stream of this schema."""
        persons = f"at least {self.k} distinct persons"
        if schema.person is None:
            persons = f"at least {self.k} rows, each counted as a different person"
        values = ""
        if self.l > 1:
            names = " and of ".join(role.name for role in schema.sensitive)
            apart = ", each held by a different person" if self.l_per == "person" else ""
            values = f" and at least {self.l} distinct values of {names}{apart}"
        when = "at every moment from its first publication"
        if self.chosen_order == "input":
            when = "once the last row of each of its releases is out (rows leave in input order, so they trickle out)"
        wait = f"A row leaves no later than {self.delay} {self.counted} after its own"
        wait += "." if self.max_wait is None else f", and no later than {self.max_wait:g} s by the given clock."
        each = "" if self.reuse != "off" else " Each release has them by itself, in each of its groups."
        return Guarantee(
            promise=f"Every published group of equal quasi-identifiers has {persons}{values}, {when}.{each} "
            f"{self._shape(schema)}{wait}",
            limits=tuple(self._limits(schema, seeded)),
            k=self.k,
            l=self.l,
            delay=self.delay,
            max_wait=self.max_wait,
        )

    def _shape(self, schema: Schema) -> str:
        """Guarantee about the distribution of sensitive values, as a sentence."""
        criteria = self.value_criteria()
        if not criteria:
            return ""
        names = " and of ".join(role.name for role in schema.sensitive)
        return (
            f"At each release the values of {names}, each person counted once per value, have "
            f"{' and '.join(criteria)}: "
            f"those of a new group by itself, and those remembered for a box together with those that join it. "
        )

    def _limits(self, schema: Schema, seeded: bool) -> Iterator[str]:
        """Limits of the guarantee, in sentences."""
        yield from self._shape_limits()
        yield "Not promised: differential privacy; protection of a person whose rows are followed over time"
        if self.reuse != "off":
            yield "or against someone who knows when a row arrived."
        else:
            yield (
                "or, beyond k persons in each release, against someone who knows when a row arrived: a person may have "
                "more than 1/k of a group's rows, and which rows leave together depends on their values."
            )
        if not self.strict:
            yield (
                "Paper mode: published ranges are closed intervals whose bounds are values of single persons, and the "
                "gate suppresses rows that the paper would publish below k."
            )
        if schema.public:
            yield f"Published as they are, outside the promise: {', '.join(schema.public)}."
        if seeded:
            yield "SEEDED: the choices and the order of rows can be predicted; for tests and experiments only."

    def _shape_limits(self) -> Iterator[str]:
        """Limits of the guarantee about the distribution of values, in sentences."""
        if self.criteria.judges_shape:
            yield (
                f"Values are remembered for the reusable boxes, at most {self.max_reusable}, and for the root; beyond "
                f"{self.remembered_pairs} values of persons, all are forgotten and boxes must qualify again."
            )
        if self.closeness is not None and self.closeness.reference != "public":
            yield "Closeness is promised at the moment of a release only: the distribution of all rows changes later."
