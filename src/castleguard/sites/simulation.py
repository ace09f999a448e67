"""Several sites in one process: what publishing together would cost and give."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.release.encode import Numbers
from castleguard.release.report import Report
from castleguard.schema.roles import Schema
from castleguard.sites.membership import Membership
from castleguard.sites.memory import Relay, Weather
from castleguard.sites.stream import SiteStream


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """What became of the rows of all sites."""

    reports: dict[str, Report]
    messages: int
    bytes: int
    output: pa.Table = field(repr=False)
    """What all sites have published, as one table."""

    def total(self, name: str) -> int:
        """A number of the reports over all sites."""
        return int(sum(getattr(report, name) for report in self.reports.values()))

    @property
    def information_loss(self) -> float | None:
        """Mean over all published rows."""
        told = [(report.information_loss, report.published + report.received) for report in self.reports.values()]
        rows = sum(rows for loss, rows in told if loss is not None)
        return sum(loss * rows for loss, rows in told if loss is not None) / rows if rows else None


def simulate(
    table: pa.Table,
    schema: Schema,
    policy: Dcastle,
    *,
    seed: int | None = None,
    weather: Weather | None = None,
    numbers: Numbers | None = None,
    batch: int = 0,
) -> Simulated:
    """Deal the rows of a table out to the sites in turn, and let them publish. `batch`: rows that a site takes at once;
    0 takes what the delay allows. No time passes while rows arrive, so that no row leaves because of `max_wait`.
    """
    relay = Relay(seed=seed or 0, weather=weather)
    names = [f"site{number:02d}" for number in range(1, policy.sites + 1)]
    sites = {
        name: SiteStream(
            schema,
            policy,
            Membership(name=name, sites=tuple(names), key=b"simulated", epoch="0"),
            relay.join(name),
            seed=None if seed is None else seed + number,
            numbers=numbers,
        )
        for number, name in enumerate(names)
    }
    step = batch or policy.joint.step
    out: list[pa.Table] = []
    for first in range(0, table.num_rows, step * len(names)):
        rows = np.arange(first, min(first + step * len(names), table.num_rows))
        for at, site in enumerate(sites.values()):
            mine = rows[at :: len(names)]
            out.append(site.push(table.take(pa.array(mine)), now=0.0))
            site.committed()
        relay.pass_time()
    for moment in range(_LAST_MOMENTS):
        done = [site.wind_down() for site in sites.values()]
        if all(done):
            break
        for site in sites.values():
            out.append(site.tick(moment * _MOMENT))
            site.committed()
        relay.pass_time()
    for site in sites.values():
        out.append(site.flush(warn=False))
        site.committed()
    for _ in range(_LAST_MOMENTS):  # what was given up is looked up
        left = [site for site in sites.values() if site.unsettled]
        if not left:
            break
        for site in left:
            out.append(site.tick(_LAST_MOMENTS * _MOMENT))
            site.committed()
    schema_out = out[-1].schema
    merged = pa.concat_tables([part.cast(schema_out) for part in out if part.num_rows] or [out[-1]])
    return Simulated(
        reports={name: site.report() for name, site in sites.items()},
        messages=relay.messages,
        bytes=relay.bytes,
        output=merged,
    )


_LAST_MOMENTS = 10_000  # at the end of the rows, if the sites never get done
_MOMENT = 0.1  # seconds
