"""Base of policies that publish groups of rows in boxes, with k persons in each: CASTLE and Citadel."""

from abc import abstractmethod
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from castleguard.algorithms.facts import MembershipGame, ShardPromise
from castleguard.algorithms.policy import MAX_WAIT, Policy, declare_delay
from castleguard.errors import PolicyError
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.criteria import Criteria
from castleguard.privacy.diversity import Diversity
from castleguard.privacy.parameter_fields import declare, parameter
from castleguard.schema.roles import QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

if TYPE_CHECKING:
    from castleguard.release.encode import Encoder, Numbers

DELAY_HELP = "Longest wait of a row, in arrivals; at least k - 1."


@dataclass(frozen=True, kw_only=True)
class GroupPolicy(Policy):
    """Criteria and delay of published groups, and the answers that follow from them."""

    k: int = field(
        metadata=declare("Distinct persons per published group.", least=2, too_low="k=1 publishes rows unprotected")
    )
    delay: int = field(metadata=declare_delay(DELAY_HELP))
    l: int = parameter(  # as named in the papers
        1, "Distinct values of every sensitive column per published group.", least=1
    )
    max_wait: float | None = field(default=None, metadata=MAX_WAIT)

    if TYPE_CHECKING:  # parameters that each policy lists after its own

        @property
        def diversity(self) -> Diversity:
            """Form of l-diversity."""

        @property
        def c(self) -> float | None:
            """The c of recursive (c, l)-diversity."""

        @property
        def closeness(self) -> Closeness | None:
            """t-closeness of every group."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.criteria  # noqa: B018  # checks k against l, and l against its form of diversity
        if self.delay + 1 < self.k:
            raise PolicyError(
                f"delay must be at least k - 1, got delay={self.delay} and k={self.k}: "
                f"k persons could never be held at once"
            )

    @property
    def criteria(self) -> Criteria:
        """Criteria that the gate checks."""
        closeness = self.closeness
        if isinstance(closeness, Closeness):
            closeness = replace(closeness, burn_in=closeness.chosen_burn_in(self.delay))
        return Criteria(k=self.k, l=self.l, diversity=self.diversity, c=self.c, closeness=closeness)

    @property
    def draws_noise(self) -> bool:
        """Whether publishing the same rows again spends their budget again: groups of true rows have no budget."""
        return False

    @property
    def rows_held(self) -> int | None:
        """Maximum number of rows held in memory."""
        return self.delay + 1

    def encoder(self, schema: Schema, numbers: "Numbers | None" = None) -> "Encoder":
        """Create the encoder of boxes."""
        from castleguard.release.encode import Encoder

        return Encoder(schema, numbers=numbers or "bounds", exact=not self.strict)

    def becomes(self, role: QuasiIdentifier | Sensitive, numbers: "Numbers | None" = None) -> str:
        """Describe in one line how a column is published."""
        if isinstance(role, Sensitive):
            whole = ", numbers by their whole part" if role.labels is None and self.strict and self.l > 1 else ""
            return f"published as it is; its values are counted in every group{whole}"
        from castleguard.algorithms.words import boxed

        return boxed(role, numbers, closed=not self.strict)

    def sharded(self, schema: Schema, *, streaming: bool) -> ShardPromise:
        """Guarantee of independent shards together."""
        return ShardPromise(closeness=self.closeness, judges_shape=self.criteria.judges_shape)

    def game(self, schema: Schema) -> MembershipGame | None:
        """Parameters of the membership game of `audit dp`."""
        return MembershipGame(rows_per_group=self.k, longest_delay=self.delay, l=self.l, period=self.max_wait)

    def fingerprint(self) -> dict[str, object]:
        """Canonical description, serialisable as JSON: equal iff two policies make the same decisions."""
        closeness = self.criteria.closeness
        return {
            **asdict(self),
            "closeness": None if closeness is None else closeness.fingerprint(),
            "algorithm": self.name,
            "order": self.chosen_order,
        }

    def value_criteria(self) -> list[str]:
        """Criteria of the distribution of sensitive values, in words; empty if none is asked."""
        asked = []
        if self.diversity == "entropy":
            asked.append(f"an entropy of at least ln {self.l}")
        if self.diversity == "recursive":
            asked.append(f"recursive ({self.c:g}, {self.l})-diversity")
        if self.closeness is not None:
            asked.append(self.closeness_words(self.closeness))
        return asked

    @abstractmethod
    def closeness_words(self, closeness: Closeness) -> str:
        """Describe t-closeness and its reference."""
