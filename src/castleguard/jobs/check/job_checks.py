"""All checks of a job, in the order of the flow.

They change nothing: no folder is created, no file written, no row consumed. Plain jobs and jobs for Spark go through
the same functions; `for_spark` adds what only Spark needs.
"""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from castleguard.errors import CastleguardError, ConfigError, UnavailableError
from castleguard.jobs.check.checklist import Check, Checklist, failed, masked, message_of, refused
from castleguard.jobs.check.folders import OTHERS, check_private, check_space, check_writable
from castleguard.jobs.check.source_checks import ask_connector, check_source, path_of

if TYPE_CHECKING:
    from castleguard.config.job_model import JobFile
    from castleguard.privacy.guarantee import Guarantee
    from castleguard.spark.spark_job import Prepared

ENDINGS = (".csv", ".gz", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather", ".ipc")


def check_file(path: str | Path, *, site: str | None = None) -> Checklist:
    """Check a job file, for one site if it has several. Mistakes in the file become checks."""
    from castleguard.config.places import check_places
    from castleguard.jobs.load import load

    try:
        job = load(path, site=site)
        check_places(job)
    except ConfigError as exc:
        return Checklist(tuple(refused(exc)), readable=False)
    return check_job(job)


def check_job(job: "JobFile") -> Checklist:
    """Check a job; the list includes its promise if the job can run."""
    found = Checklist(tuple(masked(check, job.mask) for check in _checks(job)))
    return Checklist(found.checks, _guarantee(job)) if found.ok else found


def _guarantee(job: "JobFile") -> "Guarantee":
    from castleguard.jobs.stored_state import promised

    if job.spark is not None:
        from castleguard.spark.spark_job import prepare

        return prepare(job, allow_duplicates=True).guarantee
    try:
        return promised(job)
    except UnavailableError:  # the job is running: the promise of its start holds
        return job.policy.guarantee(job.schema, seeded=False)


def _checks(job: "JobFile") -> Iterator[Check]:
    """All checks of a valid file, in the order of the flow."""
    yield Check("", f"{job.path.name} is valid")
    yield _describe_schema(job)
    yield from _check_stream(job)
    yield from _check_sites(job)
    yield from check_source(job)
    prepared = None
    if job.spark is not None:
        from castleguard.jobs.check import for_spark
        from castleguard.spark.spark_job import prepare

        yield for_spark.check_installation()
        try:
            prepared = prepare(job, allow_duplicates=True)
        except CastleguardError as exc:
            yield from refused(exc)
        else:
            yield from for_spark.check_plan(prepared)
    yield from _check_sink(job)
    yield from _check_checkpoint(job)
    yield from _check_dead_letter(job)
    yield from _check_stored(job, prepared)
    yield from _check_metrics(job)


def _describe_schema(job: "JobFile") -> Check:
    schema = job.schema
    persons = "every row counts as its own person" if schema.person is None else f"persons by {schema.person}"
    quasi = len(schema.quasi_identifiers)
    counts = f"{quasi} quasi-identifier{'' if quasi == 1 else 's'}, {len(schema.sensitive)} sensitive"
    what = f"{persons}, {counts}, {len(schema.public)} public"
    if schema.person is None:
        return Check("schema", what, "doubtful", "if a person can have several rows, set schema.person to their column")
    return Check("schema", what)


def _check_stream(job: "JobFile") -> Iterator[Check]:
    from castleguard.jobs.assemble import make_stream

    try:
        make_stream(job)
    except ConfigError as exc:
        yield from refused(exc, "change the privacy section or the schema")
        return
    algorithm = job.policy.fingerprint()["algorithm"]
    yield Check("privacy", f"{algorithm} supports this schema (promise below)")
    if not job.policy.strict:
        yield Check("privacy", "paper mode is for experiments", "doubtful", "use mode: strict for a release")


def _check_sites(job: "JobFile") -> Iterator[Check]:
    if job.sites is None:
        return
    yield Check("sites", f"{job.site} is one of {len(job.sites.names)} sites")
    if job.schema.person is None:
        yield Check(
            "sites",
            "without a person column, a person with rows at two sites counts as two",
            "doubtful",
            "set schema.person",
        )
    yield from _check_key("sites", job.sites.key, "CASTLEGUARD_SITES_KEY")
    yield from _check_separate_paths(job)
    from castleguard.connectors.nats.relay import check_relay

    try:
        yield Check("sites", f"{check_relay(job.sites.relay.options, job.name)}")
    except CastleguardError as exc:
        yield failed("sites", exc)


def _check_key(place: str, key: str, variable: str) -> Iterator[Check]:
    """Warn about a key that is written in the job file."""
    from castleguard.config.secrets import FromEnvironment

    if isinstance(key, FromEnvironment):
        yield Check(place, "the key comes from the environment and has the right length")
    else:
        yield Check(
            place, "the key is written in the job file", "doubtful", f'move it to the environment: "${{{variable}}}"'
        )


def _check_separate_paths(job: "JobFile") -> Iterator[Check]:
    """Warn if sites would share a checkpoint or sink; on separate disks the names may be equal."""
    data = job.document.data
    assert isinstance(data, dict)
    shared = [key for key in ("checkpoint", "sink") if "${SITE}" not in str(data.get(key))]
    if shared:
        yield Check(
            "sites",
            f"{' and '.join(shared)} {'has' if len(shared) == 1 else 'have'} the same name at all sites",
            "doubtful",
            "if two sites share a disk or a broker, put ${SITE} into the name",
        )


def _check_sink(job: "JobFile") -> Iterator[Check]:
    path = path_of(job.sink)
    if path is not None:
        yield from _check_output(job, path)
    if job.spark is None:  # a Spark checkpoint refuses another promise in the same folder
        yield from _check_parts(job)
    yield from _check_duplicates(job)
    yield from ask_connector(job.sink, "sink")


def _check_output(job: "JobFile", name: str) -> Iterator[Check]:
    path = Path(name)
    single = path.is_file() or (name.lower().endswith(ENDINGS) and not path.is_dir())
    if job.checkpoint is not None and single:
        yield Check(
            "sink",
            f"{path} is a single file, which cannot be restored after a crash",
            "bad",
            "name a folder (out/), or delete the checkpoint section",
        )
        return
    yield check_writable(path.parent if single else path, "sink")
    yield from check_space(path, "sink")


def _check_parts(job: "JobFile") -> Iterator[Check]:
    """Warn about parts in the folder that were published with another promise, or with an unknown one."""
    from castleguard.jobs.assemble import make_stream
    from castleguard.jobs.endpoints import manifest_of
    from castleguard.jobs.stored_state import published_before
    from castleguard.runtime.epochs import other_parts

    manifest = manifest_of(job)
    if manifest is not None and manifest.is_missing and any(manifest.folder.glob("part-*")):
        yield Check(
            "sink",
            f"{manifest.folder} has parts without a _castleguard.json, so their promise is unknown",
            "doubtful",
            "the next run describes only its own parts; name another folder to keep them apart",
        )
    try:
        found = other_parts(published_before(job), make_stream(job).describe())
    except CastleguardError:  # another check reports the policy or the checkpoint
        return
    for parts in found:
        which = "" if manifest is None else ", or tell readers that _castleguard.json says which part is which"
        yield Check("sink", f"it has {parts}", "doubtful", f"name another sink for another promise{which}")


def _check_duplicates(job: "JobFile") -> Iterator[Check]:
    """A sink that may get rows twice after a crash: refused for noisy policies; Spark refuses it without a flag."""
    from castleguard.jobs.load import connector_of

    without_transactions = job.spark is not None and job.sink.type == "kafka"
    if connector_of(job.sink).exactly_once and not without_transactions:
        return
    what = f"{job.sink.type} cannot tell which rows it has, so rows may be published twice after a crash"
    if without_transactions:
        what = "Spark writes to Kafka without transactions, so rows may be published twice after a crash"
    if job.policy.draws_noise:
        others = "files" if job.spark is not None else "files, kafka or nats"
        yield Check("sink", what, "bad", f"a noisy policy needs another sink: {others}")
    elif job.spark is not None:
        yield Check("sink", what, "doubtful", "use a folder, or run with --allow-duplicates")


def _check_checkpoint(job: "JobFile") -> Iterator[Check]:
    """The checkpoint: a file, or a folder in Spark."""
    in_spark = job.spark is not None
    if job.checkpoint is None:
        if in_spark:
            what, proposed = "not set, so a batch that runs again makes new random choices", "state/"
        else:
            what, proposed = "not set, so a stopped job starts from the beginning", "state.db"
            if job.policy.draws_noise:
                what += " and adds new noise to the same rows, which spends their budget again"
        yield Check("checkpoint", what, "doubtful", f"add checkpoint: {{path: {proposed}}}")
        return
    path = job.checkpoint.path
    folder = path if in_spark else path.parent
    yield check_writable(folder, "checkpoint")
    if path.exists() and path.is_dir() != in_spark:
        if not in_spark:  # check_writable has reported the other case
            yield Check("checkpoint", f"{path} is a folder, not a file", "bad", "choose another path")
        return
    if path.exists() or not in_spark:  # Spark's folder is created private
        yield from check_private(path, "checkpoint")
    yield from check_space(folder, "checkpoint")
    if job.checkpoint.key is None:
        remedy = "put it and spark.local.dir on an encrypted volume" if in_spark else 'add key: "${CASTLEGUARD_KEY}"'
        yield Check("checkpoint", "holds raw rows and is not encrypted", "doubtful", remedy)
    else:
        yield from _check_key("checkpoint", job.checkpoint.key, "CASTLEGUARD_KEY")


def _check_dead_letter(job: "JobFile") -> Iterator[Check]:
    if job.spark is not None:  # rejected rows are part of its output
        return
    if job.dead_letter is None:
        yield Check("dead_letter", "not set, so rejected rows are only counted")
        return
    path = job.dead_letter.path
    checked = job.checkpoint is not None and path.parent == job.checkpoint.path.parent
    if not checked:
        yield check_writable(path.parent, "dead_letter")
    if not checked or (path.is_file() and path.stat().st_mode & OTHERS):
        yield from check_private(path, "dead_letter")


def _check_stored(job: "JobFile", prepared: "Prepared | None") -> Iterator[Check]:
    """Whether the next run would accept what the job has stored."""
    try:
        restores = _restores(job, prepared)
    except UnavailableError as exc:
        yield Check("checkpoint", f"not checked: {message_of(exc)}", "doubtful")
    except CastleguardError as exc:
        yield Check("", f"the job would not start: {message_of(exc)}", "bad")
    else:
        if restores:
            yield Check("", "the next run can restore the stored state")


def _restores(job: "JobFile", prepared: "Prepared | None") -> bool:
    """Whether the next run restores stored state. Raises as that run would."""
    if job.spark is not None:
        from castleguard.spark.spark_job import check_kept

        return prepared is not None and check_kept(prepared)
    from castleguard.jobs.stored_state import check_stored

    stored = [section.path for section in (job.checkpoint, job.dead_letter) if section is not None]
    if not any(path.is_file() for path in stored):
        return False
    check_stored(job)
    return True


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
            f"cannot listen on {address}: {reason}",
            "doubtful",
            "if the job is not running, set metrics.port to another port",
        )
    else:
        yield Check("metrics", f"{address} is free" if job.metrics.port else "the system chooses a free port")
