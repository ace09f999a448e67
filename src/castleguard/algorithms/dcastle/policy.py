"""dCASTLE policy: CASTLE at several sites that publish one stream together."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.facts import Joint, Publication, ShardPromise
from castleguard.errors import PolicyError
from castleguard.privacy.guarantee import Guarantee
from castleguard.privacy.parameter_fields import declare, parameter
from castleguard.schema.roles import Schema

if TYPE_CHECKING:
    from castleguard.algorithms.stages import Keys, Stages
    from castleguard.release.encode import Numbers

Scope = Literal["global", "per_site"]
_PAPER_REFUSED = "mode='paper' publishes fewer than k persons: use `castleguard compare --methods dcastle-paper`"


@dataclass(frozen=True, kw_only=True)
class Dcastle(Castle):
    """dCASTLE (Mohamed, Ghanem, Nagi: IAJIT 17(1), 2020), strict (repaired) or as printed.

    Strict: every site runs CASTLE over its own rows; sites publish joint groups by an atomic release, and reuse boxes
    that others have published. Paper is for experiments in one process: as printed, the protocol publishes groups of
    fewer than k persons.
    """

    name: ClassVar[str] = "dcastle"
    summary: ClassVar[str] = "k-anonymous groups of true rows from several sites"
    several_sites: ClassVar[bool] = True

    sites: int = field(metadata=declare("Number of sites.", least=1, symbol="dCASTLE's n"))
    share_threshold: int | None = parameter(
        None,
        "Persons that a cluster must have before its box is sent to other sites. The paper's ceil(k / sites) "
        "reveals the ranges of very few persons.",
        least=1,
        default="k",
    )
    reserve: float = parameter(0.25, "Share of the delay reserved for agreement with other sites.", above=0, below=1)
    k_scope: Scope = parameter(
        "global",
        "Whether k and l hold for the output of all sites together (global), or also for that of each site "
        "(per_site), which does not reuse boxes published by other sites.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.criteria.judges_shape or self.l_per == "person":
            raise PolicyError(
                "dcastle promises k persons and l distinct values: entropy, recursive diversity, closeness and "
                "l_per='person' would need rows that do not leave their site"
            )
        if self.chosen_order == "input":
            raise PolicyError("order='input' cannot be kept across sites: use 'shuffled' or 'arrival'")

    @property
    def chosen_threshold(self) -> int:
        """Effective threshold."""
        if self.share_threshold is not None:
            return self.share_threshold
        return self.k if self.strict else -(-self.k // self.sites)

    @property
    def joint(self) -> Joint:
        """Parameters of releases across sites."""
        return Joint(
            sites=self.sites,
            k=self.k,
            delay=self.delay,
            max_wait=self.max_wait,
            reserve=self.reserve,
            step=max(1, int(self.reserve * self.delay) // 8),
            threshold=self.chosen_threshold,
            shares_boxes=self.reuse != "off" and self.k_scope == "global",
            refused=None if self.strict else _PAPER_REFUSED,
        )

    def stages(self, schema: Schema, keys: "Keys", *, numbers: "Numbers | None" = None) -> "Stages":
        """Create the stages of a stream."""
        from castleguard.algorithms.castle.stages import castle_stages
        from castleguard.algorithms.dcastle.engine import MemberEngine

        return castle_stages(self, schema, keys, numbers, engine=MemberEngine)

    def publication(self, schema: Schema) -> Publication:
        """Checkable properties of a published table."""
        why = "The delay counts the rows of each site, and the file has the rows of all sites."
        return replace(super().publication(schema), delay=None, why_no_delay=why, alone=False)

    def sharded(self, schema: Schema, *, streaming: bool) -> ShardPromise:
        """Shards are refused."""
        why = "dcastle is for sites that communicate, and shards do not: use castle"
        return super().sharded(schema, streaming=streaming)._replace(refused=why)

    def fingerprint(self) -> dict[str, object]:
        """Canonical description, with the effective threshold."""
        return {**super().fingerprint(), "share_threshold": self.chosen_threshold}

    def guarantee(self, schema: Schema, *, seeded: bool) -> Guarantee:
        """Privacy statement for the output of all sites, or of each."""
        plain = super().guarantee(schema, seeded=seeded)
        whose = "what each site writes by itself" if self.k_scope == "per_site" else "the output of all sites together"
        return Guarantee(
            promise=f"In {whose}: {plain.promise}",
            limits=plain.limits,
            k=plain.k,
            l=plain.l,
            delay=plain.delay,
            max_wait=plain.max_wait,
        )

    def _limits(self, schema: Schema, seeded: bool) -> Iterator[str]:
        yield from super()._limits(schema, seeded)
        yield (
            f"Other sites learn the boxes of clusters with {self.chosen_threshold} or more persons before they are "
            f"published, and keyed hashes of persons: a holder of the sites' key can test whether a guessed person "
            f"takes part. The relay sees sealed messages and records: their number, sizes and times."
        )
        if self.strict:
            yield (
                "The site that coordinates a release sees the rows that others offer for it, even if it is aborted: "
                "their published columns, the proposed box that contains each, and a box around the rows in none."
            )
        if self.k_scope == "global" and self.strict:
            yield "Groups in the output of a single site may have fewer than k persons."
        if not self.strict:
            yield "Paper mode counts some persons twice and unpublished rows too: for experiments only."
