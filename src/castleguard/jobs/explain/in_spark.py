"""What differs for a job that runs in Apache Spark: shards, restart, end."""

from collections.abc import Iterator

from castleguard.config.job_model import JobFile
from castleguard.runtime.durations import spell_duration


def shards(job: JobFile) -> Iterator[str]:
    """How rows are spread over shards, and what that costs."""
    assert job.spark is not None
    shards, policy = job.spark.shards, job.policy
    yield f"It runs in Apache Spark (`castleguard spark`), where {shards} shards share the rows and never talk."
    by = "person" if job.schema.person is not None else "position"
    spread = f"by {by}" if job.spark.route == "hash" else "by where they lie between cut points of the domain"
    yield f"Rows are sent {spread}. Each shard publishes groups of its own rows: the more shards, the more loss."
    yield "Delay and memory, as told below, are those of each shard."
    if job.source.never_ends and job.checkpoint is not None:
        every = spell_duration(job.checkpoint.every)
        yield f"There is a micro-batch every {every}; of a shard's first one nothing is published before its second."
    if job.source.never_ends and policy.max_wait is None:
        yield "A stream in Spark needs max_wait in the privacy section: without it the job is refused."


def restart_in_spark(job: JobFile) -> Iterator[str]:
    """What a stop or a crash means for a query of Spark."""
    if job.checkpoint is None:
        yield "There is no checkpoint: a batch that is run again reads everything again, and draws anew."
        return
    if not job.source.never_ends:
        yield "A batch that failed is run as a whole, and comes to the same result as long as its files are the same."
        return
    yield "The stream continues from its last micro-batch; one that was not finished is run again, to the same result."
    if job.sink.type == "kafka":
        yield "No row is lost, but a micro-batch may appear twice: Spark writes to Kafka without transactions."
    else:
        yield "No row is lost and none is published twice, for whoever reads with Spark, or what --committed lists."
    yield "The checkpoint holds raw rows and keys, NOT encrypted."
    yield "Another schema, policy or number of shards is refused there."
