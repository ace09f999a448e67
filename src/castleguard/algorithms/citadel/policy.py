"""Citadel policy: k persons in each group of each release; criteria never decide who is in which group."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from castleguard.algorithms.facts import Publication
from castleguard.algorithms.group_policy import GroupPolicy
from castleguard.algorithms.policy import CLOSENESS, DIVERSITY, RECURSIVE_C, Order
from castleguard.errors import PolicyError
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.diversity import Diversity
from castleguard.privacy.guarantee import Guarantee
from castleguard.privacy.parameter_fields import parameter
from castleguard.runtime.durations import spell_duration
from castleguard.schema.roles import Schema

if TYPE_CHECKING:
    from castleguard.algorithms.stages import Keys, Stages
    from castleguard.release.encode import Numbers

Suppression = Literal["root", "drop"]
Reuse = Literal["off", "narrow"]

_RELEASES = 8  # default number of releases per delay
# Default if values are judged: larger releases offer nearer groups to merge with one that fails a criterion.
_JUDGED_RELEASES = 4


@dataclass(frozen=True, kw_only=True)
class Citadel(GroupPolicy):
    """Groups formed from pending rows as they fall due, with k persons in each group of each release.

    The default keeps this promise even against an observer who knows when every row arrived.
    See docs/concepts/citadel.md, and docs/proofs/citadel.md for the proof.
    """

    name: ClassVar[str] = "citadel"
    summary: ClassVar[str] = "narrow groups of true rows, k persons in each release"

    release_every: int | None = parameter(
        None,
        "Arrivals between two releases; at most the delay.",
        least=1,
        default="delay / 8; delay / 4 with l or closeness",
    )
    reuse: Reuse = parameter(
        "off", "narrow: a due row may join a narrow box of an earlier release, and then leaves alone."
    )
    slack: float = parameter(
        0.2, "How much wider than the narrowest box such a box may be; 1 means twice as wide.", least=0
    )
    max_reusable: int = parameter(10_000, "Maximum number of boxes kept for narrow reuse.", least=1)
    suppression: Suppression = parameter(
        "root", "What happens to a row that finds no group: root publishes it at the root, drop suppresses it."
    )
    order: Order | None = parameter(
        None, "Order of the rows of a release: only shuffled keeps the promise.", default="shuffled"
    )
    diversity: Diversity = field(default="distinct", metadata=DIVERSITY)
    c: float | None = field(default=None, metadata=RECURSIVE_C)
    closeness: Closeness | None = field(default=None, metadata=CLOSENESS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.release_every is not None and self.release_every > self.delay:
            raise PolicyError(
                f"release_every must be at most the delay, got {self.release_every} and delay={self.delay}: rows would "
                f"leave late"
            )
        if self.order not in (None, "shuffled"):
            raise PolicyError(
                f"order={self.order!r} reveals which row is whose: Citadel shuffles every release (omit order)"
            )
        if self.closeness is not None and self.closeness.reference in ("window", "decay"):
            raise PolicyError(
                f"reference={self.closeness.reference!r} weighs the rows of a release by their age, which reveals "
                f"whose value is whose: Citadel accepts 'cumulative' (the rows of earlier releases) or 'public'"
            )
        if self.reuse == "narrow" and self.criteria.judges_shape:
            raise PolicyError(
                "reuse='narrow' lets rows join published groups one by one, which changes how their values are "
                "distributed: use reuse='off' with closeness, entropy or recursive diversity"
            )

    @property
    def every(self) -> int:
        """Number of arrivals between two releases."""
        judged = self.l > 1 or self.closeness is not None
        return self.release_every or max(1, self.delay // (_JUDGED_RELEASES if judged else _RELEASES))

    def stages(self, schema: Schema, keys: "Keys", *, numbers: "Numbers | None" = None) -> "Stages":
        """Create the stages of a stream."""
        from castleguard.algorithms.citadel.stages import citadel_stages

        return citadel_stages(self, schema, keys, numbers)

    def waits(self, *, endless: bool) -> Iterator[str]:
        """Describe how long a row waits, in sentences."""
        yield f"A row leaves at the latest when {self.delay:,} more rows have arrived."
        yield (
            f"Rows leave in bursts: one release every {self.every:,} arrivals. It publishes the rows that are due with "
            f"the pending rows near them, up to all {self.delay + 1:,} where k is large; a smaller release_every makes "
            f"releases smaller."
        )
        if self.max_wait is not None:
            yield f"A row also leaves after {spell_duration(self.max_wait)}, even if nothing else arrives."
        elif endless:
            yield "Without max_wait, rows wait as long as the source is silent."

    def keeps(self) -> Iterator[str]:
        """Describe the state kept in memory besides pending rows, in sentences."""
        if self.reuse == "narrow":
            yield f"Up to {self.max_reusable:,} published boxes are kept for reuse."

    def publication(self, schema: Schema) -> Publication:
        """Checkable properties of a published table."""
        return Publication(
            form="boxes",
            criteria=self.criteria,
            delay=self.delay,
            each_release="shares" if self.reuse == "off" else "nothing",
            counts_rows=True,
        )

    def fingerprint(self) -> dict[str, object]:
        """Canonical description, serialisable as JSON: equal iff two policies make the same decisions."""
        described = {**super().fingerprint(), "release_every": self.every}
        if self.reuse == "off":
            described["slack"] = 1.0  # unused here; constant, so that snapshots taken under the old default stay valid
        return described

    def closeness_words(self, closeness: Closeness) -> str:
        """Describe t-closeness to the rows of earlier releases, or to public shares."""
        to = "the public shares" if closeness.reference == "public" else "the rows that left in earlier releases"
        return f"t-closeness {closeness.t:g} ({closeness.distance} distance) to the distribution of {to}"

    def guarantee(self, schema: Schema, *, seeded: bool) -> Guarantee:
        """Privacy statement for a stream of this schema."""
        from castleguard.algorithms.citadel.statement import state_promise

        return state_promise(self, schema, seeded=seeded)
