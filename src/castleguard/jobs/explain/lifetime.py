"""What happens after a stop or a crash, to rows that cannot be used, and at the end."""

from collections.abc import Iterator

from castleguard.config.job_model import JobFile
from castleguard.connectors.listing import MANIFEST
from castleguard.jobs.assemble import make_stream
from castleguard.jobs.endpoints import manifest_of
from castleguard.jobs.explain.in_spark import restart_in_spark
from castleguard.jobs.load import connector_of
from castleguard.runtime.durations import spell_duration


def restart(job: JobFile) -> Iterator[str]:
    """What a stop or a crash means for the rows that are pending or delivered."""
    if job.spark is not None:
        yield from restart_in_spark(job)
        return
    noisy = job.policy.draws_noise
    if job.checkpoint is None:
        yield "There is no checkpoint: nothing can be continued, and the next run starts from the beginning."
        if noisy:
            yield "It would publish the same rows with fresh randomness, which spends their budget again."
        return
    every = spell_duration(job.checkpoint.every)
    yield f"The job continues from its last commit, at most {every} of work ago; rows since then are read again."
    if connector_of(job.sink).exactly_once:
        yield "No row is lost and none is published twice: the sink knows the number of the last delivery."
    else:
        yield "No row is lost, but the last delivery may appear twice: the sink cannot know whether it has it."
    if job.source.type == "stdio":
        yield "Standard input cannot be read again: what was read after the last commit is lost."
    sealed = "encrypted" if job.checkpoint.key is not None else "NOT encrypted (no key)"
    yield f"The checkpoint holds raw rows that are pending; it is {sealed}."
    yield "Another schema or policy is refused there: drain the job first."


def bad_rows(job: JobFile) -> Iterator[str]:
    """What becomes of rows that cannot be used."""
    if job.policy.accepts_any_value:
        yield "No row is refused for its values: what cannot be read becomes the column's default, and is randomised."
        yield "What is no row at all is rejected."
    else:
        yield "A row that cannot be read, or whose values the schema refuses, is rejected and counted by its reason."
    if job.spark is not None:
        yield "Rejected rows are told in outcome=rejected of the output: where they stood and why, not what they hold."
        return
    if job.dead_letter is None:
        yield "Rejected rows are not kept (there is no dead_letter)."
        return
    sealed = "encrypted" if job.checkpoint is not None and job.checkpoint.key is not None else "NOT encrypted"
    yield f"Rejected rows go to the dead letters, raw and {sealed}, with reason and place."
    if job.dead_letter.max_share < 1:
        yield f"If more than {job.dead_letter.max_share:.3g} of all rows are rejected, the job stops."


def end(job: JobFile) -> Iterator[str]:
    """What happens when the source ends, or the job is told to stop."""
    if job.spark is not None and job.source.never_ends:
        yield "The source never ends; with --until-idle the job does, once nothing comes and nothing is pending."
    else:
        yield "When the source ends, what can be published is; the rest is suppressed and counted."
    if job.checkpoint is not None and job.spark is None:
        yield "When the job is told to stop (SIGTERM), it commits and keeps what is pending for the next run."
    if job.spark is not None and job.source.never_ends:
        yield "Told to stop (SIGTERM), it gives up the micro-batch at work; the next run does that one again."


def epochs(job: JobFile) -> Iterator[str]:
    """What a finish or a drain means for the runs that follow."""
    if job.checkpoint is None or job.spark is not None:
        return
    if job.sites is None and make_stream(job).carry() is not None:
        yield (
            "Rows of a person are counted on when the job goes on after its end or a drain, as long as the person "
            "column and the window stay the same; otherwise the statement says what all epochs together promise."
        )
    if manifest_of(job) is not None:
        yield f"{MANIFEST} in the output folder says which parts were published under which policy."
