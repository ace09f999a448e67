"""The checklist of `castleguard validate`: a job file, and the world around it, looked at before anything runs.

Every check says what was looked at and, if it is not as it must be, what to do. Nothing outside is changed: no folder
is made, no file written, no row consumed.
"""

import glob
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from castleguard.errors import CastleguardError, ConfigError, UnavailableError

if TYPE_CHECKING:
    from castleguard.config.job_model import Endpoint, JobFile
    from castleguard.connectors.base import Read

State = Literal["good", "bad", "doubtful"]

FILES = ("csv", "jsonl", "parquet", "arrow")
ENDINGS = (".csv", ".gz", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather", ".ipc")
LEAST_FREE = 1 << 30  # bytes
SAMPLE_ROWS = 10_000

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


_LINES = "look at their number of values, their quotes and their encoding, which must be UTF-8"


class Check(NamedTuple):
    """One line of the list."""

    what: str
    state: State = "good"
    remedy: str = ""
    passing: bool = False
    """Whether it may be better the next time, with nothing changed here."""


def check_job(job: "JobFile") -> Iterator[Check]:
    """All checks of a file that could be read, in the order of the flow."""
    yield Check(f"{job.path.name} can be read, and its keys are known")
    yield _describe_schema(job)
    yield from _check_stream(job)
    if job.spark is not None:
        from castleguard.jobs.check_spark import check_spark

        yield from _check_source(job)
        yield from check_spark(job)
        return
    yield from _check_sites(job)
    yield from _check_source(job)
    yield from _check_sink(job)
    yield from _check_checkpoint(job)
    yield from _check_dead_letter(job)
    yield from _check_kept(job)
    yield from _check_metrics(job)


def _describe_schema(job: "JobFile") -> Check:
    schema = job.schema
    persons = "every row a person of its own" if schema.person is None else f"persons by {schema.person}"
    quasi = len(schema.quasi_identifiers)
    counts = f"{quasi} quasi-identifier{'' if quasi == 1 else 's'}, {len(schema.sensitive)} sensitive"
    what = f"schema: {persons}, {counts}, {len(schema.public)} public"
    if schema.person is None:
        remedy = "if somebody can have several rows, name the column that says whose they are: schema.person"
        return Check(what, "doubtful", remedy)
    return Check(what)


def _check_stream(job: "JobFile") -> Iterator[Check]:
    from castleguard.jobs.assemble import make_stream

    try:
        make_stream(job)
    except ConfigError as exc:
        yield Check(str(exc), "bad", "change the privacy section or the schema")
        return
    algorithm = job.policy.fingerprint()["algorithm"]
    yield Check(f"privacy: {algorithm} can promise this for the schema (see below)")
    if not job.policy.strict:
        yield Check("privacy: paper mode is for experiments", "doubtful", "use mode: strict for a release")


def _check_sites(job: "JobFile") -> Iterator[Check]:
    if job.sites is None:
        return
    yield Check(f"sites: this is {job.site}, one of {len(job.sites.names)} of different names")
    if job.schema.person is None:
        yield Check("sites: there is no person column, so rows of one person at two sites count twice", "doubtful")
    if _from_environment(job.sites.key):
        yield Check("sites: the key has its length, and comes from the environment")
    else:
        yield Check(
            "sites: the key stands in the job file",
            "doubtful",
            'move it to the environment: "${CASTLEGUARD_SITES_KEY}"',
        )
    yield from _check_own(job)
    from castleguard.connectors.nats.relay import check_relay

    try:
        yield Check(f"sites: {check_relay(job.sites.relay.options, job.name)}")
    except CastleguardError as exc:
        passing = isinstance(exc, UnavailableError)
        yield Check(f"sites: {_said(exc)}", "bad", "look whether it is running and can be reached from here", passing)


def _check_own(job: "JobFile") -> Iterator[Check]:
    """Sites that share a disk need a checkpoint and a sink of their own; those that do not may be alike."""
    data = job.document.data
    assert isinstance(data, dict)
    alike = [key for key in ("checkpoint", "sink") if "${SITE}" not in str(data.get(key))]
    if alike:
        yield Check(
            f"sites: {' and '.join(alike)} of all sites {'has' if len(alike) == 1 else 'have'} the same name",
            "doubtful",
            "if two sites share a disk or a broker, put ${SITE} into it",
        )


def _check_source(job: "JobFile") -> Iterator[Check]:
    from castleguard.jobs.endpoints import open_source

    path = _path_of(job.source)
    if path is not None:
        found = _files(path)
        following = bool(getattr(job.source.options, "follow", False))
        if found:
            yield from _check_readable(found)
        elif following:
            yield Check("source: no file is there yet; the job will wait for one", "doubtful")
        else:
            yield Check(f"source: nothing is found at {path}", "bad", "correct source.path (relative to the job file)")
        if found and job.source.type in FILES:
            try:
                with closing(open_source(job)) as source:
                    read = source.read(0.0)
            except (CastleguardError, OSError) as exc:
                yield Check(f"source: {_said(exc)}", "bad", _remedy_of(job, path, found))
            else:
                yield Check(f"source: the columns of the schema are there ({', '.join(job.schema.columns)})")
                if read is not None:
                    yield from _check_rows(job, read)
    yield from _ask_connector(job.source, "source")


def _remedy_of(job: "JobFile", path: str, found: list[str]) -> str:
    """What to do about a source that cannot be opened."""
    if getattr(job.source.options, "follow", False) and os.path.isfile(path):
        return "name its folder, or a pattern; or delete follow: true"
    if not all(os.access(name, os.R_OK) for name in found):
        return "let the user of the job read it"
    return "correct the schema, or the input"


def _check_readable(found: list[str]) -> Iterator[Check]:
    unreadable = [path for path in found if not os.access(path, os.R_OK)]
    if unreadable:
        names = f"{unreadable[0]}{f' and {len(unreadable) - 1} more' if len(unreadable) > 1 else ''}"
        yield Check(f"source: {names} cannot be read", "bad", "let the user of the job read it")
    else:
        yield Check(f"source: {len(found)} file{'s' if len(found) > 1 else ''} can be read")


def _check_rows(job: "JobFile", read: "Read") -> Iterator[Check]:
    """What the decoder makes of the first rows. Counts, never values."""
    from castleguard.algorithms.keys import make_keys
    from castleguard.jobs.endpoints import unfit_values
    from castleguard.schema.roles import Numeric
    from castleguard.schema.table import to_table

    rows, bad = read.rows.slice(0, SAMPLE_ROWS), len(read.bad)
    if not rows.num_rows:
        if bad:
            yield Check(f"source: none of the first {bad:,} lines can be read", "bad", _LINES)
        return
    try:
        decoder = job.policy.stages(job.schema, make_keys(seed=0)).decoder
        decoded = decoder.decode(to_table(rows, job.schema.columns), unfit_values(job))
    except CastleguardError as exc:
        yield Check(f"source: {_said(exc)}", "bad", "correct the schema")
        return
    rejected = decoded.rejected.counts
    refused = sum(rejected.values())
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in rejected.items() if count)
    what = f"source: {refused:,} of the first {rows.num_rows:,} rows would be rejected"
    allowed = 1.0 if job.dead_letter is None else job.dead_letter.max_share
    if refused == rows.num_rows:
        yield Check(f"{what} ({reasons})", "bad", "correct the domains and hierarchies in the schema")
    elif refused > allowed * rows.num_rows:
        yield Check(
            f"{what} ({reasons}), more than the share of {allowed:g} at which the job stops",
            "doubtful",
            "correct the schema, say what becomes of such values (null, invalid, outside, unknown), or raise max_share",
        )
    elif refused:
        yield Check(f"{what} ({reasons})", "doubtful", "look at the domains and hierarchies in the schema")
    else:
        yield Check(f"source: none of the first {rows.num_rows:,} rows would be rejected")
    if bad:
        share = bad / (bad + read.rows.num_rows)
        stops = f", more than the share of {allowed:g} at which the job stops" if share > allowed else ""
        what = (
            f"source: {bad:,} line{' is no row' if bad == 1 else 's are no rows'}, beside {read.rows.num_rows:,} rows"
        )
        yield Check(f"{what} (malformed){stops}", "doubtful", _LINES)
    fine = [
        role.name
        for at, role in enumerate(job.schema.quasi_identifiers)
        if isinstance(role, Numeric) and role.hides_nothing(decoded.sample[:, at])
    ]
    if fine and job.policy.publishes_values:
        yield Check(
            f"schema: {', '.join(fine)}: a cell of the grid holds a single value of the data, so its bounds tell it",
            "doubtful",
            "give a larger step",
        )


def _check_sink(job: "JobFile") -> Iterator[Check]:
    from castleguard.jobs.load import connector_of

    path = _path_of(job.sink)
    if path is not None:
        yield from _check_output(job, path)
    yield from _check_parts(job)
    if job.policy.draws_noise and not connector_of(job.sink).exactly_once:
        yield Check(
            f"sink: {job.sink.type} cannot know what it has, so after a crash rows may be published twice",
            "bad",
            "a noisy mode needs a sink that knows: files, kafka or nats",
        )
    yield from _ask_connector(job.sink, "sink")


def _check_output(job: "JobFile", name: str) -> Iterator[Check]:
    path = Path(name)
    single = path.is_file() or (name.lower().endswith(ENDINGS) and not path.is_dir())
    if job.checkpoint is not None and single:
        yield Check(
            f"sink: {path} is a single file, which cannot be continued after a crash",
            "bad",
            "name a folder (out/), or delete the checkpoint section",
        )
        return
    yield writable(path.parent if single else path, "sink")
    yield from check_space(path, "sink")


def _check_parts(job: "JobFile") -> Iterator[Check]:
    """Whether all parts that are in the folder were published as the job would publish the next ones."""
    from castleguard.jobs.assemble import make_stream
    from castleguard.jobs.endpoints import manifest_of
    from castleguard.jobs.kept import published_before
    from castleguard.runtime.epochs import other_parts

    manifest = manifest_of(job)
    if manifest is not None and manifest.is_missing and any(manifest.folder.glob("part-*")):
        yield Check(
            f"sink: {manifest.folder} has parts, and nothing says what was promised for them",
            "doubtful",
            "the next run describes those that it publishes; name another folder to keep them apart",
        )
    try:
        found = other_parts(published_before(job), make_stream(job).describe())
    except CastleguardError:  # a policy, or a checkpoint, that is told elsewhere
        return
    for parts in found:
        which = "" if manifest is None else ", or tell readers that _castleguard.json says which part is which"
        yield Check(f"sink: it has {parts}", "doubtful", f"name another sink for another promise{which}")


def _check_checkpoint(job: "JobFile") -> Iterator[Check]:

    if job.checkpoint is None:
        again = (
            "; the same rows then get fresh noise, which spends their budget again" if job.policy.draws_noise else ""
        )
        yield Check(
            f"checkpoint: there is none, so a stopped job starts from the beginning{again}",
            "doubtful",
            "add checkpoint: {path: state.db}",
        )
        return
    path = job.checkpoint.path
    yield writable(path.parent, "checkpoint")
    if path.is_dir():
        yield Check(f"checkpoint: {path} is a folder, and must be a file", "bad", "choose another path")
        return
    yield from _check_private(path, "checkpoint")
    yield from check_space(path.parent, "checkpoint")
    if job.checkpoint.key is None:
        yield Check("checkpoint: not encrypted, though it holds raw rows", "doubtful", 'add key: "${CASTLEGUARD_KEY}"')
    elif not _from_environment(job.checkpoint.key):
        yield Check(
            "checkpoint: the key stands in the job file", "doubtful", 'move it to the environment: "${CASTLEGUARD_KEY}"'
        )


def _check_dead_letter(job: "JobFile") -> Iterator[Check]:
    if job.dead_letter is None:
        yield Check("dead_letter: there is none, so rejected rows are only counted", "good")
        return
    path = job.dead_letter.path
    beside = job.checkpoint is not None and path.parent == job.checkpoint.path.parent  # that folder has been looked at
    if not beside:
        yield writable(path.parent, "dead_letter")
    if not beside or (path.is_file() and path.stat().st_mode & _OTHERS):
        yield from _check_private(path, "dead_letter")


def _check_kept(job: "JobFile") -> Iterator[Check]:
    """Whether `run` would go on with what is there."""
    from castleguard.jobs.kept import check_kept

    kept = [section.path for section in (job.checkpoint, job.dead_letter) if section is not None]
    if not any(path.is_file() for path in kept):
        return
    try:
        check_kept(job)
    except UnavailableError as exc:
        yield Check(f"checkpoint: {_said(exc)}, so it is not looked at", "doubtful")
    except CastleguardError as exc:
        yield Check(f"the job would not go on: {_said(exc)}", "bad")
    else:
        yield Check("the job can go on from what it has kept")


def _check_metrics(job: "JobFile") -> Iterator[Check]:
    if job.metrics is None:
        return
    address = f"{job.metrics.host}:{job.metrics.port}"
    try:
        with socket.create_server((job.metrics.host, job.metrics.port)):
            pass
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        yield Check(
            f"metrics: {address} cannot be listened at: {reason}", "doubtful", "choose another port, if the job is off"
        )
    else:
        yield Check(f"metrics: {address} is free")


def _ask_connector(endpoint: "Endpoint", key: str) -> Iterator[Check]:
    """What the connector itself has to say."""
    from castleguard.jobs.load import connector_of

    ask = connector_of(endpoint).check
    if ask is None:
        return
    try:
        findings = list(ask(endpoint.options))
    except CastleguardError as exc:
        passing = isinstance(exc, UnavailableError)
        remedy = "look whether it is running and can be reached from here" if passing else ""  # else the error says it
        yield Check(f"{key}: {_said(exc)}", "bad", remedy, passing)
        return
    for what, fine, remedy in findings:
        yield Check(f"{key}: {what}", "good" if fine else "bad", "" if fine else remedy)


def _path_of(endpoint: "Endpoint") -> str | None:
    """The path among the options, if there is one."""
    path = getattr(endpoint.options, "path", None)
    return str(path) if isinstance(path, str | Path) else None


def _files(path: str) -> list[str]:
    """The files that a path, a pattern or a folder stands for, in the order of their names."""
    if os.path.isdir(path):
        path = os.path.join(glob.escape(path), "*")
    found = [path] if os.path.isfile(path) else glob.glob(path, recursive=True)
    ignored = (".part", ".tmp", "_castleguard.json")
    return sorted(name for name in found if os.path.isfile(name) and not name.endswith(ignored))


def _existing(path: Path) -> Path:
    """The path, or the nearest one around it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def writable(folder: Path, key: str) -> Check:
    """Whether a folder can be written, or made."""
    there = _existing(folder)
    if not there.is_dir():
        return Check(f"{key}: {there} is a file, and must be a folder", "bad", "choose another path")
    if not os.access(there, os.W_OK | os.X_OK):
        return Check(f"{key}: {there} cannot be written", "bad", "let the user of the job write there")
    if not _keeps_files(there):
        return Check(f"{key}: {there} is no place for files", "bad", "choose another path")
    return Check(f"{key}: {folder} can be written" if folder.exists() else f"{key}: {folder} can be made")


def _keeps_files(folder: Path) -> bool:
    """Whether files can be made there. /proc and its like forbid root nothing, and make no file either: they have no
    room, and take none that has no name yet.
    """
    if not hasattr(os, "O_TMPFILE") or os.statvfs(folder).f_blocks:
        return True
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600))
    except OSError:
        return False
    return True


def _check_private(path: Path, key: str) -> Iterator[Check]:
    """Raw rows are for the owner alone."""
    if path.is_file() and path.stat().st_mode & _OTHERS:
        yield Check(f"{key}: {path} holds raw rows, and others can read it", "bad", f"chmod 600 {path}")
    elif path.parent.is_dir() and path.parent.stat().st_mode & stat.S_IRWXO:
        yield Check(f"{key}: others can look into {path.parent}", "doubtful", f"chmod 700 {path.parent}")


def check_private_folder(folder: Path, key: str) -> Iterator[Check]:
    """A folder that holds raw rows is for the owner alone; one that is not there yet will be."""
    if folder.is_dir() and folder.stat().st_mode & _OTHERS:
        yield Check(f"{key}: others can look into {folder}, which holds raw rows", "doubtful", f"chmod 700 {folder}")


def check_space(folder: Path, key: str) -> Iterator[Check]:
    """Whether there is little room."""
    free = shutil.disk_usage(_existing(folder)).free
    if free < LEAST_FREE:
        yield Check(f"{key}: {free >> 20:,} MiB are free there", "doubtful", "a full disk stops the job: make room")


def _from_environment(text: str) -> bool:
    from castleguard.config.secrets import FromEnvironment

    return isinstance(text, FromEnvironment)


def _said(exc: Exception) -> str:
    """An error as part of a line. Only our own messages are known to be free of data."""
    return str(exc) if isinstance(exc, CastleguardError) else type(exc).__name__
