"""The CASTLE policy: what is promised, within which delay, and how the paper's open points are read."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from castleguard.algorithms.base import MAX_DELAY, Mode, Order, Policy
from castleguard.algorithms.facts import MembershipGame, Publication, ShardPromise
from castleguard.errors import PolicyError
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.criteria import CountedPer, Criteria
from castleguard.privacy.diversity import Diversity
from castleguard.privacy.guarantee import Guarantee
from castleguard.privacy.parameters import is_number, is_whole
from castleguard.runtime.durations import spell_duration
from castleguard.schema.arguments import kind_of
from castleguard.schema.roles import QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

if TYPE_CHECKING:
    from castleguard.algorithms.keys import Keys
    from castleguard.algorithms.stages import Stages
    from castleguard.release.encode import Encoder, Numbers

Suppression = Literal["root", "generalise", "drop"]
Reuse = Literal["paper", "off"]

_PAIRS_PER_BOX = 64  # what is remembered of a box that may be used again, on average


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How points are read that the paper leaves open. None of them touches the promise; see docs/concepts/castle.md."""

    tie_break: Literal["oldest", "random"]
    """Which of several equally good clusters."""
    containment: Literal["generalisation", "interval"]
    """What a published cluster contains when it is used again: all that it was published as, or its range intervals."""
    admission: Literal["le", "lt"]
    """Whether a cluster whose loss equals the threshold may be used again."""
    representatives: Literal["balanced", "random"]
    """Which row stands for a person in split^l."""
    merge: Literal["diversity_aware", "paper"]
    """Whether a merge that lacks only l looks for new values among equally near clusters."""
    first_threshold: float = 0.0
    """The threshold before anything has been published; 0 opens clusters, 1 fills one."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, choices = getattr(self, field.name), get_args(field.type)
            if choices and value not in choices:
                raise PolicyError(f"{field.name} must be {' or '.join(map(repr, choices))}, got {value!r}")
        if not 0 <= self.first_threshold <= 1:
            raise PolicyError(f"first_threshold must be between 0 and 1, got {self.first_threshold}")


STRICT = Reading(
    tie_break="oldest",
    containment="generalisation",
    admission="le",
    representatives="balanced",
    merge="diversity_aware",
)
PAPER = Reading(
    tie_break="random",
    containment="interval",
    admission="lt",
    representatives="random",
    merge="paper",
)


@dataclass(frozen=True, kw_only=True)
class Castle(Policy):
    """CASTLE (Cao, Carminati, Ferrari, Tan: IEEE TDSC 8(3), 2011), strict (repaired) or as the paper prints it.

    Strict keeps the promise where the paper loses it, and is the default. Paper is for science: the engine decides
    as the paper prints, and the gate still refuses to publish what is not covered.
    """

    name: ClassVar[str] = "castle"
    summary: ClassVar[str] = "k-anonymous groups of true rows"

    k: int
    """Distinct persons per published group. No default: it is the promise."""
    delay: int
    """A row leaves no later than when `delay` further rows have arrived: CASTLE's delta."""
    l: int = 1  # the papers' own name
    """Distinct values of every sensitive column per published group."""
    max_wait: float | None = None
    """A row leaves no later than `max_wait` seconds after its arrival, as the clock given to push and tick has it."""
    max_clusters: int = 50
    """Open clusters: CASTLE's beta, CASTLEGUARD's b."""
    loss_window: int = 100
    """Published clusters whose mean loss is the threshold: CASTLE's mu."""
    max_reusable: int = 1000
    """Generalisations kept for reuse: a bound on CASTLE's Omega."""
    reusable_age: int | None = None
    """Arrivals after which a generalisation is not used again; None: no limit."""
    mode: Mode = "strict"
    reuse: Reuse = "paper"
    """"off" merges instead, and every release has k persons in each of its groups, those at the root too."""
    suppression: Suppression | None = None
    """What happens to a row that no cluster can publish: "root" (strict), "generalise" (paper) or "drop"."""
    order: Order | None = None
    """Rows of one release "shuffled" (strict), by "arrival" (paper); "input": all rows in input order (Theorem 3)."""
    l_per: CountedPer = "row"
    diversity: Diversity = "distinct"
    """Beyond l distinct values: "entropy" asks for an entropy of ln l, "recursive" for (c, l)-diversity."""
    c: float | None = None
    """Of (c, l)-diversity: the most frequent value occurs less than c times as often as all from the l-th on."""
    closeness: Closeness | None = None
    """How near the values of a group must be to those of all rows."""
    reading: Reading | None = None
    """None: STRICT or PAPER, by mode."""

    def __post_init__(self) -> None:
        for field in ("k", "l", "delay", "max_clusters", "loss_window", "max_reusable", "reusable_age", "max_wait"):
            value = getattr(self, field)
            if isinstance(value, np.generic):
                object.__setattr__(self, field, value.item())
        self.criteria  # noqa: B018  # checks k and l
        for name, least in (("delay", 1), ("max_clusters", 1), ("loss_window", 1), ("max_reusable", 1)):
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise PolicyError(f"{name} must be a whole number of at least {least}, got {value}")
        if self.delay + 1 < self.k:
            raise PolicyError(
                f"delay must be at least k - 1, got delay={self.delay} and k={self.k}: "
                f"k persons could never be held at once"
            )
        if self.delay > MAX_DELAY:
            raise PolicyError(
                f"delay must be at most {MAX_DELAY}, got {self.delay}: every pending row is kept in memory"
            )
        if self.max_wait is not None and not (is_number(self.max_wait) and 0 < self.max_wait < float("inf")):
            raise PolicyError(f"max_wait must be a number of seconds above 0, got {self.max_wait}")
        if self.reusable_age is not None and not (is_whole(self.reusable_age) and self.reusable_age >= 0):
            raise PolicyError(f"reusable_age must be a whole number that is not negative, got {self.reusable_age}")
        for name, allowed in (
            ("mode", ("strict", "paper")),
            ("reuse", ("paper", "off")),
            ("suppression", (None, "root", "generalise", "drop")),
            ("order", (None, "shuffled", "arrival", "input")),
        ):
            if getattr(self, name) not in allowed:
                choices = " or ".join(repr(choice) for choice in allowed if choice is not None)
                raise PolicyError(f"{name} must be {choices}, got {getattr(self, name)!r}")
        if self.reading is not None and not isinstance(self.reading, Reading):
            raise PolicyError(f"reading must be a Reading, got {kind_of(self.reading)}")
        if self.mode == "strict" and self.suppression == "generalise":
            raise PolicyError("suppression='generalise' publishes rows alone at the root: use 'root' or mode='paper'")

    @property
    def criteria(self) -> Criteria:
        """The promise that the gate checks."""
        closeness = self.closeness
        if isinstance(closeness, Closeness):
            closeness = replace(closeness, burn_in=closeness.chosen_burn_in(self.delay))
        return Criteria(k=self.k, l=self.l, l_per=self.l_per, diversity=self.diversity, c=self.c, closeness=closeness)

    @property
    def remembered_pairs(self) -> int:
        """Published (person, value) pairs that are remembered of each sensitive column, by engine and gate, where the
        distribution of values is judged. All rows that can be pending fit; when more is published all is forgotten.
        """
        return self.delay + 1 + _PAIRS_PER_BOX * self.max_reusable

    @property
    def strict(self) -> bool:
        """Whether the guarantee is kept where the paper loses it."""
        return self.mode == "strict"

    @property
    def counted(self) -> str:
        """What the delay counts, in words."""
        return "arrivals"

    @property
    def draws_noise(self) -> bool:
        """Whether publishing the same rows again spends their budget again: there is none."""
        return False

    @property
    def rows_held(self) -> int | None:
        """The most rows that are held in memory."""
        return self.delay + 1

    @property
    def chosen_suppression(self) -> Suppression:
        """The suppression in force."""
        return self.suppression or ("root" if self.strict else "generalise")

    @property
    def chosen_order(self) -> Order:
        """The order in force."""
        return self.order or ("shuffled" if self.strict else "arrival")

    @property
    def chosen_reading(self) -> Reading:
        """The reading in force."""
        return self.reading or (STRICT if self.strict else PAPER)

    def stages(self, schema: Schema, keys: "Keys", *, numbers: "Numbers | None" = None) -> "Stages":
        """New stages for a stream."""
        from castleguard.algorithms.castle.stages import castle_stages

        return castle_stages(self, schema, keys, numbers)

    def encoder(self, schema: Schema, numbers: "Numbers | None" = None) -> "Encoder":
        """The encoder of boxes."""
        from castleguard.release.encode import Encoder

        return Encoder(schema, numbers=numbers or "bounds", exact=not self.strict)

    def becomes(self, role: QuasiIdentifier | Sensitive, numbers: "Numbers | None" = None) -> str:
        """What is published for a column, in one line."""
        if isinstance(role, Sensitive):
            whole = ", numbers by their whole part" if role.labels is None and self.strict and self.l > 1 else ""
            return f"published as it is; its values are counted in every group{whole}"
        from castleguard.algorithms.words import boxed

        return boxed(role, numbers, closed=not self.strict)

    def waits(self, *, endless: bool) -> Iterator[str]:
        """How long a row waits, a sentence each."""
        yield f"A row leaves at the latest when {self.delay:,} more rows have arrived."
        if self.max_wait is not None:
            yield f"It also leaves after {spell_duration(self.max_wait)}, even if nothing else arrives."
        elif endless:
            yield "There is no max_wait: while the source is silent, rows wait as long as it is silent."

    def publication(self, schema: Schema) -> Publication:
        """What a published table can be held to."""
        return Publication(form="boxes", criteria=self.criteria, closed=not self.strict, delay=self.delay)

    def sharded(self, schema: Schema, *, streaming: bool) -> ShardPromise:
        """What shards promise together."""
        return ShardPromise(closeness=self.closeness, judges_shape=self.criteria.judges_shape)

    def game(self, schema: Schema) -> MembershipGame | None:
        """How `audit dp` plays."""
        return MembershipGame(rows_per_group=self.k, longest_delay=self.delay, l=self.l, period=self.max_wait)

    def fingerprint(self) -> dict[str, object]:
        """A canonical description that JSON can hold: two policies decide alike iff theirs are equal."""
        described = asdict(self)
        closeness = self.criteria.closeness
        described.update(
            closeness=None if closeness is None else closeness.fingerprint(),
            algorithm=self.name,
            suppression=self.chosen_suppression,
            order=self.chosen_order,
            reading=asdict(self.chosen_reading),
        )
        return described

    def guarantee(self, schema: Schema, *, seeded: bool) -> Guarantee:
        """What this policy promises for a stream of this schema."""
        persons = f"at least {self.k} distinct persons"
        if schema.person is None:
            persons = f"at least {self.k} rows, each taken for a person of its own"
        values = ""
        if self.l > 1:
            names = " and of ".join(role.name for role in schema.sensitive)
            apart = ", each held by a different person" if self.l_per == "person" else ""
            values = f" and at least {self.l} distinct values of {names}{apart}"
        when = "at every moment from its first publication"
        if self.chosen_order == "input":
            when = "once the last row of each of its releases is out (rows leave in input order, so they trickle out)"
        wait = f"A row leaves no later than {self.delay} {self.counted} after its own"
        wait += "." if self.max_wait is None else f", and no later than {self.max_wait:g} s by the clock that is given."
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
        """What is promised about the distribution of sensitive values, as a sentence."""
        asked = []
        if self.diversity == "entropy":
            asked.append(f"an entropy of at least ln {self.l}")
        if self.diversity == "recursive":
            asked.append(f"recursive ({self.c:g}, {self.l})-diversity")
        if self.closeness is not None:
            asked.append(str(self.closeness))
        if not asked:
            return ""
        names = " and of ".join(role.name for role in schema.sensitive)
        return (
            f"At each release the values of {names}, a person counted once for a value, have {' and '.join(asked)}: "
            f"those of a new group by itself, and all that are remembered of a box with those that join it. "
        )

    def _limits(self, schema: Schema, seeded: bool) -> Iterator[str]:
        """What is not promised, a sentence each."""
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
                "Paper mode: published ranges are closed intervals whose bounds are persons' own values, and rows that "
                "the paper would publish below k are suppressed by the gate."
            )
        if schema.public:
            yield f"Published as they are, outside the promise: {', '.join(schema.public)}."
        if seeded:
            yield "SEEDED: the choices and the order of rows can be predicted; for tests and experiments only."

    def _shape_limits(self) -> Iterator[str]:
        """How far the promise about the distribution of values reaches."""
        if self.criteria.judges_shape:
            yield (
                f"Remembered are the boxes that may be used again, at most {self.max_reusable}, and the root; when "
                f"more than {self.remembered_pairs} persons' values are, all is forgotten and must be earned again."
            )
        if self.closeness is not None and self.closeness.reference != "public":
            yield "Closeness is promised at the moment of a release only: the distribution of all rows moves on."
