"""Checks of the source: files, columns, and a trial decoding of rows from all of it."""

import glob
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from castleguard.durable import UNFINISHED
from castleguard.errors import CastleguardError
from castleguard.jobs.check.checklist import Check, failed, message_of

if TYPE_CHECKING:
    import pyarrow as pa

    from castleguard.config.job_model import Endpoint, JobFile
    from castleguard.connectors.base import Source

FILES = ("csv", "jsonl", "parquet", "arrow")
SAMPLE_ROWS = 10_000
MOST_ROWS = 5_000_000
_LINES = "check the number of values, the quotes and the encoding (UTF-8)"


def ask_connector(endpoint: "Endpoint", key: str) -> Iterator[Check]:
    """The connector's own checks of a source or sink."""
    from castleguard.jobs.load import connector_of

    ask = connector_of(endpoint).check
    if ask is None:
        return
    try:
        findings = list(ask(endpoint.options))
    except CastleguardError as exc:
        yield failed(key, exc)
        return
    for what, fine, remedy in findings:
        yield Check(key, what, "good" if fine else "bad", "" if fine else remedy)


def path_of(endpoint: "Endpoint") -> str | None:
    """The path among the options; None without one."""
    path = getattr(endpoint.options, "path", None)
    return str(path) if isinstance(path, str | Path) else None


def check_source(job: "JobFile") -> Iterator[Check]:
    """All checks of the source."""
    from castleguard.jobs.endpoints import open_source

    path = path_of(job.source)
    if path is not None:
        found = _files(path)
        following = bool(getattr(job.source.options, "follow", False))
        if found:
            yield from _check_readable(found)
        elif following:
            yield Check("source", f"{path} has no file yet; the job will wait for one", "doubtful")
        else:
            yield Check("source", f"{path} does not exist", "bad", "correct source.path (relative to the job file)")
        if found and job.source.type in FILES:
            try:
                with closing(open_source(job)) as source:
                    sample = _read_all(source)
            except (CastleguardError, OSError) as exc:
                yield Check("source", message_of(exc), "bad", _remedy_of(job, path, found))
            else:
                yield Check("source", f"has all columns of the schema ({', '.join(job.schema.columns)})")
                if sample.rows or sample.bad:
                    yield from _check_rows(job, sample)
    yield from ask_connector(job.source, "source")


def _remedy_of(job: "JobFile", path: str, found: list[str]) -> str:
    """The remedy for a source that cannot be opened."""
    if getattr(job.source.options, "follow", False) and os.path.isfile(path):
        return "name its folder or a pattern, or delete follow: true"
    if not all(os.access(name, os.R_OK) for name in found):
        return "give the job's user read permission"
    return "correct the schema or the input"


def _check_readable(found: list[str]) -> Iterator[Check]:
    unreadable = [path for path in found if not os.access(path, os.R_OK)]
    if unreadable:
        names = f"{unreadable[0]}{f' and {len(unreadable) - 1} more' if len(unreadable) > 1 else ''}"
        yield Check("source", f"{names} cannot be read", "bad", "give the job's user read permission")
    else:
        yield Check("source", f"{len(found)} file{'s' if len(found) > 1 else ''} readable")


class _Sample(NamedTuple):
    """Rows of a source, from all of what it has now."""

    table: "pa.Table | None"
    """None if the source is empty."""
    rows: int
    """Rows read."""
    bad: int
    """Malformed lines among them."""

    @property
    def which(self) -> str:
        """The sampled rows in words."""
        assert self.table is not None
        count = self.table.num_rows
        return f"the {self.rows:,} rows" if count == self.rows else f"{count:,} rows, sampled from {self.rows:,},"


def _read_all(source: "Source") -> _Sample:
    """Read what the source has now, at most five million rows."""
    from castleguard.jobs.reservoir import Reservoir
    from castleguard.schema.table import to_table

    reservoir: Reservoir | None = None
    rows = bad = 0
    while rows < MOST_ROWS and not source.finished:
        read = source.read(0.0)
        if read is None:
            break
        bad += len(read.bad)
        rows += read.rows.num_rows
        if read.rows.num_rows:
            reservoir = reservoir or Reservoir(SAMPLE_ROWS)
            reservoir.add(to_table(read.rows))
    return _Sample(None if reservoir is None else reservoir.table(None), rows, bad)


def _check_rows(job: "JobFile", sample: _Sample) -> Iterator[Check]:
    """Decode the sample and report counts, never values."""
    from castleguard.algorithms.stages import make_keys
    from castleguard.jobs.endpoints import unfit_values
    from castleguard.schema.declared_types import read_types
    from castleguard.schema.roles import Numeric
    from castleguard.schema.table import to_table

    rows, bad = sample.table, sample.bad
    if rows is None:
        yield Check("source", f"all of the {bad:,} lines are malformed", "bad", _LINES)
        return
    try:
        decoder = job.policy.stages(job.schema, make_keys(seed=0)).decoder
        sealed = [role.name for role in job.schema.sensitive if decoder.seals_sensitive]
        types = {name: declared for name, declared in job.schema.types.items() if name not in sealed}
        table, misfits = read_types(to_table(rows, job.schema.columns), types)
        decoded = decoder.decode(table, unfit_values(job), misfits=misfits)
    except CastleguardError as exc:
        yield Check("source", message_of(exc), "bad", "correct the schema")
        return
    counts = decoded.rejected.counts
    rejected = sum(counts.values())
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in counts.items() if count)
    what = f"{rejected:,} of {sample.which} would be rejected"
    allowed = 1.0 if job.dead_letter is None else job.dead_letter.max_share
    limit = f", above dead_letter.max_share ({allowed:g}), at which the job stops"
    if rejected == rows.num_rows:
        yield Check("source", f"{what} ({reasons})", "bad", "correct the domains and hierarchies in the schema")
    elif rejected > allowed * rows.num_rows:
        yield Check(
            "source",
            f"{what} ({reasons}){limit}",
            "doubtful",
            "correct the schema, set null, invalid, outside or unknown for these columns, or raise max_share",
        )
    elif rejected:
        yield Check("source", f"{what} ({reasons})", "doubtful", "check the domains and hierarchies in the schema")
    else:
        yield Check("source", f"none of {sample.which} would be rejected")
    if bad:
        share = bad / (bad + sample.rows)
        what = f"{bad:,} malformed line{'' if bad == 1 else 's'} among {sample.rows:,} rows"
        yield Check("source", f"{what}{limit if share > allowed else ''}", "doubtful", _LINES)
    fine = [
        role.name
        for at, role in enumerate(job.schema.quasi_identifiers)
        if isinstance(role, Numeric) and role.hides_nothing(decoded.sample[:, at])
    ]
    if fine and job.policy.publishes_values:
        yield Check(
            "schema",
            f"{', '.join(fine)}: a grid cell holds a single value of the data, so published bounds reveal it",
            "doubtful",
            "use a larger step",
        )


def _files(path: str) -> list[str]:
    """Files of a path, pattern or folder, sorted by name."""
    from castleguard.connectors.listing import MANIFEST

    if os.path.isdir(path):
        path = os.path.join(glob.escape(path), "*")
    found = [path] if os.path.isfile(path) else glob.glob(path, recursive=True)
    ignored = (*UNFINISHED, MANIFEST)
    return sorted(name for name in found if os.path.isfile(name) and not name.endswith(ignored))
