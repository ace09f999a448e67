"""Published form of each input column."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from castleguard.config.job_model import JobFile
from castleguard.connectors.csv_options import csv_of
from castleguard.schema.roles import Numeric, QuasiIdentifier
from castleguard.schema.sensitive import Sensitive

_TYPES = {
    pa.int64(): "whole number",
    pa.float64(): "number",
    pa.string(): "text",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", tz="UTC"): "timestamp (UTC)",
}


class ColumnOutput(NamedTuple):
    """Published form of a column."""

    column: str
    role: str
    output: str
    """Names and types of the published columns; empty if the column is dropped."""
    meaning: str


def outputs(job: JobFile) -> Iterator[ColumnOutput]:
    """All declared columns: first the published ones, in the order of the output."""
    labels = job.policy.publication(job.schema).publishes_labels
    errors = {error.column: error for error in job.policy.noise_errors(job.schema)}

    def meaning(role: QuasiIdentifier | Sensitive) -> str:
        text = job.policy.becomes(role, job.numbers)
        error = errors.get(role.name)
        if error is None:
            return text
        if error.is_label:
            return f"{text}; {error.size:.0%} of the labels are replaced"
        return f"{text}; a noisy value is off by {error.size:.3g} on average"

    fields = iter(job.policy.encoder(job.schema, job.numbers).fields)
    for role in job.schema.quasi_identifiers:
        count = 2 if isinstance(role, Numeric) and _writes_bounds(job) else 1
        own = [next(fields) for _ in range(count)]
        names = ", ".join(field.name for field in own)
        output = f"{names} ({_TYPES.get(own[0].type, str(own[0].type))})"
        yield ColumnOutput(role.name, "quasi-identifier", output, meaning(role))
    for sensitive in job.schema.sensitive:
        declared = None if labels else sensitive.type
        output = sensitive.name if declared is None else f"{sensitive.name} ({declared})"
        yield ColumnOutput(sensitive.name, "sensitive", output, meaning(sensitive))
    for public in job.schema.public_roles:
        output = public.name if public.type is None else f"{public.name} ({public.type})"
        yield ColumnOutput(public.name, "public", output, "published unchanged and unchecked")
    if job.schema.person is not None:
        yield ColumnOutput(job.schema.person, "person", "", "identifies the person of a row, and is never published")


def sentences(job: JobFile) -> Iterator[str]:
    """The output of every column, and of values outside their domains."""
    for column, role, output, meaning in outputs(job):
        yield f"{column} ({role}) -> {output or 'dropped'}: {meaning}."
    yield from _reading_of_ranges(job)
    yield from _clamping(job)
    yield "All other columns of the input are dropped."
    if job.schema.person is None:
        yield "No column identifies the person of a row: every row counts as its own person."


def _reading_of_ranges(job: JobFile) -> Iterator[str]:
    """How to read a published range, and which columns it does not protect."""
    publication = job.policy.publication(job.schema)
    if publication.form == "points" or publication.closed:
        return
    numbers = [role for role in job.schema.quasi_identifiers if isinstance(role, Numeric)]
    if not numbers:
        return
    if job.numbers != "midpoint":
        yield (
            "A range of numbers includes its lower bound and excludes its upper bound, except at the end of the "
            "domain, where it includes both."
        )
    single = [role.name for role in numbers if role.holds_single_units]
    if single and not publication.noisy:
        yield (
            f"A grid cell of these columns holds a single whole number, day or second, so a range of one cell reveals "
            f"the value: {', '.join(single)}. Use a larger step to hide it."
        )


def _clamping(job: JobFile) -> Iterator[str]:
    """Columns that clamp a value outside the domain to its nearest end."""
    always = job.policy.accepts_any_value
    numbers = [role for role in job.schema.quasi_identifiers if isinstance(role, Numeric) and role.domain is not None]
    clamped = [role.name for role in numbers if always or role.outside == "clamp"]
    if clamped:
        points = job.policy.publication(job.schema).form == "points"
        meaning = "" if points else ', so a bound there means "or beyond"'
        yield f"Values outside the domain are clamped to its nearest end{meaning}: {', '.join(clamped)}."


def _writes_bounds(job: JobFile) -> bool:
    return job.policy.publication(job.schema).form != "points" and job.numbers in (None, "bounds")


def formulas(job: JobFile) -> Iterator[str]:
    """Treatment of text that a spreadsheet would run as a formula."""
    csv = csv_of(job.sink.options)
    if csv is None:
        return
    if csv.formulas == "escape":
        yield "Text that a spreadsheet would run as a formula gets an apostrophe; audit, measure and cuts remove it."
    elif csv.formulas == "refuse":
        yield "Rows with text that a spreadsheet would run as a formula are rejected."
    else:
        yield "Text that a spreadsheet would run as a formula is published unchanged: do not open the output in one."
