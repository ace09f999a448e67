"""Simulation of several sites in one process: gain and cost of joint releases."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.books import Books
from castleguard.release.encode import Numbers
from castleguard.schema.roles import Schema
from castleguard.sites.coordinator import SiteCoordinator
from castleguard.sites.memory_relay import Faults, Relay
from castleguard.sites.site_membership import Membership
from castleguard.stream import Anonymiser


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Result of a simulation."""

    reports: dict[str, Books]
    messages: int
    bytes: int
    output: pa.Table = field(repr=False)
    """The published rows of all sites."""

    def total(self, name: str) -> int:
        """Return one count, summed over all sites."""
        return int(getattr(self.books, name))

    @property
    def books(self) -> Books:
        """Books of all sites together."""
        return Books.total(self.reports.values())

    @property
    def information_loss(self) -> float | None:
        """Mean over all published rows."""
        return self.books.information_loss


def simulate(
    table: pa.Table,
    schema: Schema,
    policy: Dcastle,
    *,
    seed: int | None = None,
    faults: Faults | None = None,
    numbers: Numbers | None = None,
    batch: int = 0,
) -> Simulated:
    """Deal the rows of a table out to the sites in turn, and publish them.

    `batch`: rows per push; 0: as many as the delay allows. No time passes while rows arrive, so `max_wait` has no
    effect.
    """
    relay = Relay(seed=seed or 0, faults=faults)
    names = [f"site{number:02d}" for number in range(1, policy.sites + 1)]
    sites: dict[str, Anonymiser] = {}
    for number, name in enumerate(names):
        own = None if seed is None else seed + number
        member = Membership(name=name, sites=tuple(names), key=b"simulated", epoch="0")
        coordinator = SiteCoordinator(member, relay.join(name), seed=own)
        sites[name] = Anonymiser(schema, policy, seed=own, numbers=numbers, coordinator=coordinator)
    step = batch or policy.joint.step
    out: list[pa.Table] = []
    for first in range(0, table.num_rows, step * len(names)):
        rows = np.arange(first, min(first + step * len(names), table.num_rows))
        for at, site in enumerate(sites.values()):
            mine = rows[at :: len(names)]
            out.append(site.push(table.take(pa.array(mine)), now=0.0))
            site.coordinator.committed()
        relay.pass_time()
    for moment in range(_LAST_MOMENTS):
        done = [site.coordinator.wind_down(0.0, 0) for site in sites.values()]
        if all(done):
            break
        for site in sites.values():
            out.append(site.tick(moment * _MOMENT))
            site.coordinator.committed()
        relay.pass_time()
    for site in sites.values():
        out.append(site.flush(warn=False))
        site.coordinator.committed()
    for _ in range(_LAST_MOMENTS):  # look up rows that were given up
        left = [site for site in sites.values() if site.coordinator.unsettled]
        if not left:
            break
        for site in left:
            out.append(site.tick(_LAST_MOMENTS * _MOMENT))
            site.coordinator.committed()
    schema_out = out[-1].schema
    merged = pa.concat_tables([part.cast(schema_out) for part in out if part.num_rows] or [out[-1]])
    return Simulated(
        reports={name: site.report() for name, site in sites.items()},
        messages=relay.messages,
        bytes=relay.bytes,
        output=merged,
    )


_LAST_MOMENTS = 10_000  # limit of the negotiation after the last row
_MOMENT = 0.1  # seconds
