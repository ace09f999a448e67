"""Gain and cost of joint releases: the same rows published in several ways.

The protocol as printed in the paper is a method of `castleguard compare` instead: it breaks its guarantee and is for
experiments only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pyarrow as pa

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.books import Report
from castleguard.release.encode import Numbers
from castleguard.schema.roles import Schema
from castleguard.sites.simulation import simulate
from castleguard.stream import Anonymiser


@dataclass(frozen=True, kw_only=True)
class Way:
    """Result of one way of publishing the rows."""

    name: str
    information_loss: float | None = None
    """Mean over published and suppressed rows; a suppressed row counts as 1."""
    published: int = 0
    suppressed: int = 0
    messages: int = 0
    bytes: int = 0
    note: str = ""
    output: pa.Table | None = field(default=None, repr=False)
    """The published rows, of the first way only."""


def compare(
    table: pa.Table, schema: Schema, policy: Dcastle, *, seed: int, numbers: Numbers | None = None
) -> Iterator[Way]:
    """Publish jointly, sharing boxes from k persons on and from k/n; all rows at one site; and each site alone.

    Rows are dealt out to the sites in turn. Every way has the same parameters; the delay counts rows of one site.
    """
    few = -(-policy.k // policy.sites)
    for threshold in sorted({policy.k, few}, reverse=True):
        found = simulate(table, schema, replace(policy, share_threshold=threshold), seed=seed, numbers=numbers)
        published = found.total("published") + found.total("received")
        suppressed = found.total("suppressed") + found.total("undecided")
        yield Way(
            name=f"together, strict, boxes shared from {threshold} persons on",
            information_loss=_with_suppressed(found.information_loss, published, suppressed),
            published=published,
            suppressed=suppressed,
            messages=found.messages,
            bytes=found.bytes,
            note="" if threshold == policy.k else "the sites learn of boxes with fewer than k persons",
            output=found.output if threshold == policy.k else None,
        )
    for name, sites in (("one site has all rows", 1), ("each site by itself", policy.sites)):
        yield _alone(table, schema, policy, seed=seed, sites=sites, name=name)


def _alone(table: pa.Table, schema: Schema, policy: Dcastle, *, seed: int, sites: int, name: str) -> Way:
    """Run CASTLE without messages, at one site or at several."""
    castle = Castle(**{name.name: getattr(policy, name.name) for name in fields(Castle)})
    reports: list[Report] = []
    for site in range(sites):
        stream = Anonymiser(schema, castle, seed=seed + site)
        stream.push(table.take(pa.array(np.arange(site, table.num_rows, sites))), now=0.0)
        stream.flush(warn=False)
        reports.append(stream.report())
    published, suppressed = (sum(getattr(one, name) for one in reports) for name in ("published", "suppressed"))
    lost = sum((report.information_loss or 0.0) * report.published for report in reports)
    loss = lost / published if published else None
    return Way(
        name=name,
        information_loss=_with_suppressed(loss, published, suppressed),
        published=published,
        suppressed=suppressed,
    )


def _with_suppressed(loss: float | None, published: int, suppressed: int) -> float | None:
    if loss is None:
        return 1.0 if suppressed else None
    return (loss * published + suppressed) / (published + suppressed)
