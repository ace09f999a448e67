"""Sentences of the explanation: sites, shards, delay and memory, restart, bad rows, and the end."""

from collections.abc import Iterator

from castleguard.config.job_model import Endpoint, JobFile
from castleguard.connectors.listing import MANIFEST
from castleguard.jobs.assemble import make_stream
from castleguard.jobs.endpoints import manifest_of
from castleguard.jobs.explain.memory import PROGRAM, memory_of_rows, memory_per_row
from castleguard.jobs.load import connector_of
from castleguard.runtime.durations import spell_duration


def spell_endpoint(endpoint: Endpoint) -> str:
    """Type and non-default options of a source, sink or relay; secrets hidden."""
    options = ", ".join(f"{key} {value}" for key, value in endpoint.shown().items())
    return f"{endpoint.type} ({options})" if options else endpoint.type


def sites(job: JobFile) -> Iterator[str]:
    """Partners, data that leaves a site, and behaviour while the others are unavailable."""
    assert job.sites is not None
    joint = job.policy.joint
    assert joint is not None
    others = [name for name in job.sites.names if name != job.site]
    relay = spell_endpoint(job.sites.relay)
    yield f"This is site {job.site}; it publishes together with {', '.join(others)}, through {relay}."
    yield (
        "No quasi-identifier and no person leaves a site. A row that is published together with rows of another site "
        "is sent there in its published form, with a keyed hash of its person, encrypted with the key of the sites."
    )
    yield (
        f"Rows take part from {1 - joint.reserve:.0%} of the delay on. The source is read {joint.step:,} rows at a "
        f"time, so that messages are read in between. Releases with other sites cause additional commits."
    )
    yield (
        "While the other sites or the relay are unavailable, this site publishes alone, with more loss. Rows locked "
        "for a release that become due before the relay returns are dropped and counted as undecided."
    )
    yield "Persons are counted across sites only if a person has the same identifier at every site."


def shards(job: JobFile) -> Iterator[str]:
    """How rows are spread over shards in Spark, and the cost of it."""
    assert job.spark is not None
    shards, policy = job.spark.shards, job.policy
    yield f"It runs in Apache Spark (`castleguard spark`), with {shards} shards that do not communicate."
    by = "person" if job.schema.person is not None else "position"
    spread = f"by {by}" if job.spark.route == "hash" else "by cut points of the domain"
    yield f"Rows are distributed {spread}. Each shard publishes groups of its own rows: more shards mean more loss."
    yield "Delay and memory below are per shard."
    if job.source.never_ends and job.checkpoint is not None:
        every = spell_duration(job.checkpoint.every)
        yield f"A micro-batch runs every {every}; a shard publishes nothing in its first one."
    if job.source.never_ends and policy.max_wait is None:
        yield "A stream in Spark needs max_wait in the privacy section: without it the job is refused."


def delay(job: JobFile) -> Iterator[str]:
    """How long a row may wait, and how many rows are held in memory."""
    yield from job.policy.waits(endless=job.spark is None or job.source.never_ends)
    if job.spark is not None and job.source.never_ends:
        yield "Both are checked once per micro-batch: the row may become readable up to two micro-batches later."
    elif job.checkpoint is not None and job.spark is None:
        yield f"Released rows are delivered with the next commit, up to {spell_duration(job.checkpoint.every)} later."
    rows, size = job.policy.rows_held, memory_of_rows(job)
    if rows is None or size is None:
        each = memory_per_row(job)
        yield f"All rows of a window are held in memory: about {each:,} bytes each, plus {_size(PROGRAM)} for the job."
    else:
        copies = "" if job.checkpoint is None else ", a snapshot included"
        yield (
            f"Up to {rows:,} rows are held in memory. The job needs {_size(PROGRAM + size)} when it needs most: "
            f"{_size(size)} for these rows{copies}, and {_size(PROGRAM)} for itself."
        )
        if job.spark is not None:
            yield "A shard also holds all of its rows of a micro-batch (or of the whole batch)."
    yield from job.policy.keeps()


def _size(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"about {size / unit:.1f} {name}" if size < 10 * unit else f"about {size / unit:,.0f} {name}"
    return "less than 1 MB"


def restart(job: JobFile) -> Iterator[str]:
    """What a stop or a crash means for pending and delivered rows."""
    if job.spark is not None:
        yield from _restart_in_spark(job)
        return
    if job.checkpoint is None:
        yield "Without a checkpoint nothing can be restored: the next run starts from the beginning."
        if job.policy.draws_noise:
            yield "It would publish the same rows with new noise, which spends their budget again."
        return
    every = spell_duration(job.checkpoint.every)
    yield f"The next run restores the last commit, at most {every} old, and reads later rows again."
    if connector_of(job.sink).exactly_once:
        yield "No row is lost and none is published twice: the sink knows the number of the last delivery."
    else:
        yield "No row is lost, but the last delivery may appear twice: the sink does not know whether it has it."
    if job.source.type == "stdio":
        yield "Standard input cannot be read again: rows read after the last commit are lost."
    encrypted = "encrypted" if job.checkpoint.key is not None else "NOT encrypted (no key)"
    yield f"The checkpoint holds raw pending rows; it is {encrypted}."
    yield "The checkpoint refuses another schema or policy: drain the job before you change them."


def _restart_in_spark(job: JobFile) -> Iterator[str]:
    if job.checkpoint is None:
        yield "Without a checkpoint, a batch that runs again reads all rows again and makes new random choices."
        return
    if not job.source.never_ends:
        yield "A failed batch runs again as a whole, with the same result as long as its files do not change."
        return
    yield "The next run restores the last micro-batch; an unfinished one runs again, with the same result."
    if job.sink.type == "kafka":
        yield "No row is lost, but a micro-batch may appear twice: Spark writes to Kafka without transactions."
    else:
        yield "No row is lost and none is published twice, if read with Spark or from the files that --committed lists."
    yield "The checkpoint holds raw rows and keys, NOT encrypted."
    yield "The checkpoint refuses another schema, policy or number of shards."


def bad_rows(job: JobFile) -> Iterator[str]:
    """What happens to rows that cannot be used."""
    if job.policy.accepts_any_value:
        yield "No row is rejected for its values: an unreadable value becomes the column's default and is randomised."
        yield "Malformed rows are rejected."
    else:
        yield "A row that is malformed, or whose values do not fit the schema, is rejected and counted by reason."
    if job.spark is not None:
        yield "Rejected rows appear in outcome=rejected of the output, with place and reason but without their values."
        return
    if job.dead_letter is None:
        yield "Rejected rows are not kept (no dead_letter section)."
        return
    encrypted = "encrypted" if job.checkpoint is not None and job.checkpoint.key is not None else "NOT encrypted"
    yield f"Rejected rows go to the dead letters, raw and {encrypted}, with reason and place."
    if job.dead_letter.max_share < 1:
        yield f"The job stops if more than {job.dead_letter.max_share:.3g} of all rows are rejected."


def end(job: JobFile) -> Iterator[str]:
    """What happens when the source ends or a signal stops the job."""
    if job.spark is not None and job.source.never_ends:
        yield "The source never ends; with --until-idle the job ends when no rows arrive and none are pending."
    else:
        yield "When the source ends, rows that can be published are published; the rest is suppressed and counted."
    if job.checkpoint is not None and job.spark is None:
        yield "SIGTERM commits and stops the job; the next run restores the pending rows."
    if job.spark is not None and job.source.never_ends:
        yield "SIGTERM abandons the current micro-batch and stops the job; the next run repeats that micro-batch."


def epochs(job: JobFile) -> Iterator[str]:
    """What a finish or a drain means for later runs."""
    if job.checkpoint is None or job.spark is not None:
        return
    if job.sites is None and make_stream(job).carry() is not None:
        yield (
            "The rows of a person are counted across epochs (after the end of the source or a drain), as long as the "
            "person column and the window stay the same; otherwise the statement covers all epochs together."
        )
    if manifest_of(job) is not None:
        yield f"{MANIFEST} in the output folder says which parts were published under which policy."
