"""What `castleguard explain` says of a job, in plain words: columns, promise, delay, memory, restart, bad rows, end."""

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from castleguard.config.job_model import Endpoint, JobFile
from castleguard.connectors.csv_options import csv_of
from castleguard.connectors.listing import MANIFEST
from castleguard.errors import CastleguardError
from castleguard.jobs.assemble import make_stream
from castleguard.jobs.endpoints import manifest_of
from castleguard.jobs.kept import promised
from castleguard.jobs.load import connector_of
from castleguard.privacy.guarantee import Guarantee
from castleguard.runtime.durations import spell_duration
from castleguard.schema.roles import Numeric

WIDTH = 100

_TYPES = {
    pa.int64(): "whole number",
    pa.float64(): "number",
    pa.string(): "text",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", tz="UTC"): "timestamp (UTC)",
}
_ROW_BYTES = 240  # of one pending row: its links and its share of the tables of persons and values
_CELL_BYTES = 16  # of one of its coded values, which are kept by the engine and beside it
_PAYLOAD_BYTES = 32  # of a value that is published as it is


class Becomes(NamedTuple):
    """What a column becomes."""

    column: str
    role: str
    output: str
    """Names and types of the published columns; empty: it is dropped."""
    meaning: str


def explanation(job: JobFile) -> str:
    """The whole text."""
    parts = [
        ("", [f"{job.name}: from {_spell(job.source)} to {_spell(job.sink)}."]),
        ("What each column becomes", [*_columns(job), *_formulas(job)]),
        ("What is promised", [_guarantee(job).paragraphs()]),
        *([("Other sites", list(_sites(job)))] if job.sites is not None else []),
        *([("Shards", list(_shards(job)))] if job.spark is not None else []),
        ("Delay and memory", list(_delay(job))),
        ("After a stop or a crash", list(_restart(job))),
        ("Rows that cannot be used", list(_bad_rows(job))),
        ("At the end", [*_end(job), *_epochs(job)]),
    ]
    return "\n\n".join("\n".join([title, *map(_wrapped, lines)] if title else lines) for title, lines in parts)


def _guarantee(job: JobFile) -> Guarantee:
    if job.spark is None:
        try:
            return promised(job)
        except CastleguardError:  # it is running, or cannot be opened: `validate` tells
            return job.policy.guarantee(job.schema, seeded=False)
    from castleguard.spark.job import plan_of
    from castleguard.spark.job import promised as promised_in_spark

    return promised_in_spark(job, plan_of(job))


def becomes(job: JobFile) -> Iterator[Becomes]:
    """Every declared column: those that are published first, in the order of the output."""
    fields = iter(job.policy.encoder(job.schema, job.numbers).fields)
    for role in job.schema.quasi_identifiers:
        count = 2 if isinstance(role, Numeric) and _writes_bounds(job) else 1
        own = [next(fields) for _ in range(count)]
        names = ", ".join(field.name for field in own)
        output = f"{names} ({_TYPES.get(own[0].type, str(own[0].type))})"
        yield Becomes(role.name, "quasi-identifier", output, job.policy.becomes(role, job.numbers))
    for sensitive in job.schema.sensitive:
        yield Becomes(sensitive.name, "sensitive", sensitive.name, job.policy.becomes(sensitive, job.numbers))
    for name in job.schema.public:
        yield Becomes(name, "public", name, "passes as it is, and is not looked at")
    if job.schema.person is not None:
        yield Becomes(job.schema.person, "person", "", "says whose row it is, and is never published")


def _columns(job: JobFile) -> Iterator[str]:
    for column, role, output, meaning in becomes(job):
        yield f"  {column} ({role}) -> {output or 'dropped'}: {meaning}."
    yield from _reading_of_ranges(job)
    yield from _clamping(job)
    yield "  Any other column of the input is dropped."
    if job.schema.person is None:
        yield "  No column says whose row it is: every row counts as a person of its own."


def _reading_of_ranges(job: JobFile) -> Iterator[str]:
    """How a range of cells is read, and which columns it does not hide."""
    publication = job.policy.publication(job.schema)
    if publication.form == "points" or publication.closed:
        return
    numbers = [role for role in job.schema.quasi_identifiers if isinstance(role, Numeric)]
    if not numbers:
        return
    if job.numbers != "midpoint":
        yield (
            "  A range of numbers holds what is at least its lower and below its upper bound; the upper bound itself "
            "only where it ends the domain."
        )
    single = [role.name for role in numbers if role.holds_single_units]
    if single and not publication.noisy:
        yield (
            f"  A cell holds only one whole number, day or second, so that a range of one cell tells such a value: "
            f"{', '.join(single)}. A larger step hides it."
        )


def _clamping(job: JobFile) -> Iterator[str]:
    """Which columns move a value outside the domain to its nearest end."""
    always = job.policy.accepts_any_value
    numbers = [role for role in job.schema.quasi_identifiers if isinstance(role, Numeric) and role.domain is not None]
    clamped = [role.name for role in numbers if always or role.outside == "clamp"]
    if clamped:
        points = job.policy.publication(job.schema).form == "points"
        meaning = "" if points else ', which then means "or beyond"'
        yield f"  Values outside the domain count as its nearest end (clamp){meaning}: {', '.join(clamped)}."


def _writes_bounds(job: JobFile) -> bool:
    return job.policy.publication(job.schema).form != "points" and job.numbers in (None, "bounds")


def _sites(job: JobFile) -> Iterator[str]:
    assert job.sites is not None
    joint = job.policy.joint
    assert joint is not None
    others = [name for name in job.sites.names if name != job.site]
    yield f"This is {job.site}; it publishes together with {', '.join(others)}, by way of {_spell(job.sites.relay)}."
    yield (
        "No quasi-identifier and no person leaves a site. A row that is published together with rows of another site "
        "goes there as it will be published, with a keyed hash of its person, sealed with the key that the sites share."
    )
    yield (
        f"Rows take part from {1 - joint.reserve:.0%} of the delay on; the source is read {joint.step:,} "
        f"rows at a time, so that the others are heard. Such releases bring commits of their own."
    )
    yield (
        "While the others or the relay are away, this site publishes alone, with more loss. Rows that were locked for "
        "a release when the relay went away, and are due before it comes back, are dropped and counted as undecided."
    )
    yield "Persons are counted over all sites only if a person has the same identifier at each of them."


def _shards(job: JobFile) -> Iterator[str]:
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


def _delay(job: JobFile) -> Iterator[str]:
    yield from job.policy.waits(endless=job.spark is None or job.source.never_ends)
    if job.spark is not None and job.source.never_ends:
        yield "Both are looked at once in a micro-batch: up to two of them may pass until the row can be read."
    elif job.checkpoint is not None and job.spark is None:
        yield f"What is released is delivered at the next commit, up to {spell_duration(job.checkpoint.every)} later."
    size, rows = _row_bytes(job), job.policy.rows_held
    if rows is None:
        yield f"All rows of a window are held in memory: about {size:,} bytes for each."
    else:
        yield f"Up to {rows:,} rows are held in memory, {_size(rows * size)}, besides some 250 MB for the program."
        if job.spark is not None:
            yield "A shard also holds all rows of a micro-batch (or of the whole batch) that are its own."
    yield from job.policy.keeps()


def _row_bytes(job: JobFile) -> int:
    coded = len(job.schema.quasi_identifiers) + len(job.schema.sensitive)
    payload = len(job.schema.sensitive) + len(job.schema.public)
    return _ROW_BYTES + _CELL_BYTES * coded + _PAYLOAD_BYTES * payload


def _restart(job: JobFile) -> Iterator[str]:
    if job.spark is not None:
        yield from _restart_in_spark(job)
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


def _restart_in_spark(job: JobFile) -> Iterator[str]:
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


def _formulas(job: JobFile) -> Iterator[str]:
    csv = csv_of(job.sink.options)
    if csv is None:
        return
    if csv.formulas == "escape":
        yield "Text that a spreadsheet would run as a formula gets an apostrophe; audit, measure and cuts undo that."
    elif csv.formulas == "refuse":
        yield "Rows with text that a spreadsheet would run as a formula are rejected."
    else:
        yield "Texts that a spreadsheet would run as formulas are published as they are: open the output in none."


def _bad_rows(job: JobFile) -> Iterator[str]:
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


def _epochs(job: JobFile) -> Iterator[str]:
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


def _end(job: JobFile) -> Iterator[str]:
    if job.spark is not None and job.source.never_ends:
        yield "The source never ends; with --until-idle the job does, once nothing comes and nothing is pending."
    else:
        yield "When the source ends, what can be published is; the rest is suppressed and counted."
    if job.checkpoint is not None and job.spark is None:
        yield "When the job is told to stop (SIGTERM), it commits and keeps what is pending for the next run."
    if job.spark is not None and job.source.never_ends:
        yield "Told to stop (SIGTERM), it gives up the micro-batch at work; the next run does that one again."


def _spell(endpoint: Endpoint) -> str:
    options = ", ".join(f"{key} {value}" for key, value in endpoint.shown().items())
    return f"{endpoint.type} ({options})" if options else endpoint.type


def _size(size: int) -> str:
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB")):
        if size >= unit:
            return f"about {size / unit:.2g} {name}" if size < 10 * unit else f"about {size // unit:,} {name}"
    return "less than 1 MB"


def _wrapped(line: str) -> str:
    if "\n" in line:
        return line
    indent = "    " if line.startswith("  ") else ""
    return "\n".join(textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False))
