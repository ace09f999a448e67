"""All checks of a job, in the order of the flow.

Nothing outside is changed: no folder is made, no file written, no row consumed.
"""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from castleguard.errors import CastleguardError, ConfigError, UnavailableError
from castleguard.jobs.check.checklist import Check, Checklist, masked, refused, words_of
from castleguard.jobs.check.connector import ask_connector, path_of
from castleguard.jobs.check.folders import OTHERS, check_private, check_space, writable
from castleguard.jobs.check.rows import check_source

if TYPE_CHECKING:
    from castleguard.config.job_model import JobFile
    from castleguard.privacy.guarantee import Guarantee

ENDINGS = (".csv", ".gz", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather", ".ipc")


def check_file(path: str | Path, *, site: str | None = None) -> Checklist:
    """Check a job file, for one of its sites if it has some. Mistakes in the file are checks, too."""
    from castleguard.config.places import check_places
    from castleguard.jobs.load import load

    try:
        job = load(path, site=site)
        check_places(job)
    except ConfigError as exc:
        return Checklist(tuple(refused(exc)), readable=False)
    return check_job(job)


def check_job(job: "JobFile") -> Checklist:
    """Check a job, and say what it promises if nothing would stop it."""
    found = Checklist(tuple(masked(check, job.mask) for check in _checks(job)))
    return Checklist(found.checks, _guarantee(job)) if found.ok else found


def _guarantee(job: "JobFile") -> "Guarantee":
    from castleguard.jobs.kept import promised

    if job.spark is not None:
        from castleguard.spark.spark_job import prepare

        return prepare(job, allow_duplicates=True).guarantee
    try:
        return promised(job)
    except UnavailableError:  # the job is running: what it said at its start holds
        return job.policy.guarantee(job.schema, seeded=False)


def _checks(job: "JobFile") -> Iterator[Check]:
    """All checks of a file that could be read, in the order of the flow."""
    yield Check("", f"{job.path.name} can be read, and its keys are known")
    yield _describe_schema(job)
    yield from _check_stream(job)
    if job.spark is not None:
        from castleguard.jobs.check.for_spark import check_spark

        yield from check_source(job)
        yield from check_spark(job)
        return
    yield from _check_sites(job)
    yield from check_source(job)
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
    what = f"{persons}, {counts}, {len(schema.public)} public"
    if schema.person is None:
        remedy = "if somebody can have several rows, name the column that says whose they are: schema.person"
        return Check("schema", what, "doubtful", remedy)
    return Check("schema", what)


def _check_stream(job: "JobFile") -> Iterator[Check]:
    from castleguard.jobs.assemble import make_stream

    try:
        make_stream(job)
    except ConfigError as exc:
        yield from refused(exc, "change the privacy section or the schema")
        return
    algorithm = job.policy.fingerprint()["algorithm"]
    yield Check("privacy", f"{algorithm} can promise this for the schema (see below)")
    if not job.policy.strict:
        yield Check("privacy", "paper mode is for experiments", "doubtful", "use mode: strict for a release")


def _check_sites(job: "JobFile") -> Iterator[Check]:
    if job.sites is None:
        return
    yield Check("sites", f"this is {job.site}, one of {len(job.sites.names)} of different names")
    if job.schema.person is None:
        yield Check("sites", "there is no person column, so rows of one person at two sites count twice", "doubtful")
    if _from_environment(job.sites.key):
        yield Check("sites", "the key has its length, and comes from the environment")
    else:
        yield Check(
            "sites",
            "the key stands in the job file",
            "doubtful",
            'move it to the environment: "${CASTLEGUARD_SITES_KEY}"',
        )
    yield from _check_own(job)
    from castleguard.connectors.nats.relay import check_relay

    try:
        yield Check("sites", f"{check_relay(job.sites.relay.options, job.name)}")
    except CastleguardError as exc:
        passing = isinstance(exc, UnavailableError)
        yield Check(
            "sites",
            words_of(exc),
            "bad",
            "look whether it is running and can be reached from here",
            temporary=passing,
        )


def _check_own(job: "JobFile") -> Iterator[Check]:
    """Sites that share a disk need a checkpoint and a sink of their own; those that do not may be alike."""
    data = job.document.data
    assert isinstance(data, dict)
    alike = [key for key in ("checkpoint", "sink") if "${SITE}" not in str(data.get(key))]
    if alike:
        yield Check(
            "sites",
            f"{' and '.join(alike)} of all sites {'has' if len(alike) == 1 else 'have'} the same name",
            "doubtful",
            "if two sites share a disk or a broker, put ${SITE} into it",
        )


def _check_sink(job: "JobFile") -> Iterator[Check]:
    from castleguard.jobs.load import connector_of

    path = path_of(job.sink)
    if path is not None:
        yield from _check_output(job, path)
    yield from _check_parts(job)
    if job.policy.draws_noise and not connector_of(job.sink).exactly_once:
        yield Check(
            "sink",
            f"{job.sink.type} cannot know what it has, so after a crash rows may be published twice",
            "bad",
            "a noisy mode needs a sink that knows: files, kafka or nats",
        )
    yield from ask_connector(job.sink, "sink")


def _check_output(job: "JobFile", name: str) -> Iterator[Check]:
    path = Path(name)
    single = path.is_file() or (name.lower().endswith(ENDINGS) and not path.is_dir())
    if job.checkpoint is not None and single:
        yield Check(
            "sink",
            f"{path} is a single file, which cannot be continued after a crash",
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
            "sink",
            f"{manifest.folder} has parts, and nothing says what was promised for them",
            "doubtful",
            "the next run describes those that it publishes; name another folder to keep them apart",
        )
    try:
        found = other_parts(published_before(job), make_stream(job).describe())
    except CastleguardError:  # a policy, or a checkpoint, that is told elsewhere
        return
    for parts in found:
        which = "" if manifest is None else ", or tell readers that _castleguard.json says which part is which"
        yield Check("sink", f"it has {parts}", "doubtful", f"name another sink for another promise{which}")


def _check_checkpoint(job: "JobFile") -> Iterator[Check]:

    if job.checkpoint is None:
        again = (
            "; the same rows then get fresh noise, which spends their budget again" if job.policy.draws_noise else ""
        )
        yield Check(
            "checkpoint",
            f"there is none, so a stopped job starts from the beginning{again}",
            "doubtful",
            "add checkpoint: {path: state.db}",
        )
        return
    path = job.checkpoint.path
    yield writable(path.parent, "checkpoint")
    if path.is_dir():
        yield Check("checkpoint", f"{path} is a folder, and must be a file", "bad", "choose another path")
        return
    yield from check_private(path, "checkpoint")
    yield from check_space(path.parent, "checkpoint")
    if job.checkpoint.key is None:
        yield Check(
            "checkpoint", "not encrypted, though it holds raw rows", "doubtful", 'add key: "${CASTLEGUARD_KEY}"'
        )
    elif not _from_environment(job.checkpoint.key):
        yield Check(
            "checkpoint",
            "the key stands in the job file",
            "doubtful",
            'move it to the environment: "${CASTLEGUARD_KEY}"',
        )


def _check_dead_letter(job: "JobFile") -> Iterator[Check]:
    if job.dead_letter is None:
        yield Check("dead_letter", "there is none, so rejected rows are only counted", "good")
        return
    path = job.dead_letter.path
    beside = job.checkpoint is not None and path.parent == job.checkpoint.path.parent  # that folder has been looked at
    if not beside:
        yield writable(path.parent, "dead_letter")
    if not beside or (path.is_file() and path.stat().st_mode & OTHERS):
        yield from check_private(path, "dead_letter")


def _check_kept(job: "JobFile") -> Iterator[Check]:
    """Whether `run` would go on with what is there."""
    from castleguard.jobs.kept import check_kept

    kept = [section.path for section in (job.checkpoint, job.dead_letter) if section is not None]
    if not any(path.is_file() for path in kept):
        return
    try:
        check_kept(job)
    except UnavailableError as exc:
        yield Check("checkpoint", f"{words_of(exc)}, so it is not looked at", "doubtful")
    except CastleguardError as exc:
        yield Check("", f"the job would not go on: {words_of(exc)}", "bad")
    else:
        yield Check("", "the job can go on from what it has kept")


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
            "metrics",
            f"{address} cannot be listened at: {reason}",
            "doubtful",
            "choose another port, if the job is off",
        )
    else:
        yield Check("metrics", f"{address} is free")


def _from_environment(text: str) -> bool:
    from castleguard.config.secrets import FromEnvironment

    return isinstance(text, FromEnvironment)
