"""What each column of the input becomes."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from castleguard.config.job_model import JobFile
from castleguard.connectors.csv_options import csv_of
from castleguard.schema.roles import Numeric

_TYPES = {
    pa.int64(): "whole number",
    pa.float64(): "number",
    pa.string(): "text",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", tz="UTC"): "timestamp (UTC)",
}


class Becomes(NamedTuple):
    """What a column becomes."""

    column: str
    role: str
    output: str
    """Names and types of the published columns; empty: it is dropped."""
    meaning: str


def becomes(job: JobFile) -> Iterator[Becomes]:
    """Every declared column: those that are published first, in the order of the output."""
    labels = job.policy.publication(job.schema).publishes_labels
    fields = iter(job.policy.encoder(job.schema, job.numbers).fields)
    for role in job.schema.quasi_identifiers:
        count = 2 if isinstance(role, Numeric) and _writes_bounds(job) else 1
        own = [next(fields) for _ in range(count)]
        names = ", ".join(field.name for field in own)
        output = f"{names} ({_TYPES.get(own[0].type, str(own[0].type))})"
        yield Becomes(role.name, "quasi-identifier", output, job.policy.becomes(role, job.numbers))
    for sensitive in job.schema.sensitive:
        declared = None if labels else sensitive.type
        output = sensitive.name if declared is None else f"{sensitive.name} ({declared})"
        yield Becomes(sensitive.name, "sensitive", output, job.policy.becomes(sensitive, job.numbers))
    for public in job.schema.public_roles:
        output = public.name if public.type is None else f"{public.name} ({public.type})"
        yield Becomes(public.name, "public", output, "passes as it is, and is not looked at")
    if job.schema.person is not None:
        yield Becomes(job.schema.person, "person", "", "says whose row it is, and is never published")


def columns(job: JobFile) -> Iterator[str]:
    """What becomes of every column, and of values outside their domains."""
    for column, role, output, meaning in becomes(job):
        yield f"{column} ({role}) -> {output or 'dropped'}: {meaning}."
    yield from _reading_of_ranges(job)
    yield from _clamping(job)
    yield "Any other column of the input is dropped."
    if job.schema.person is None:
        yield "No column says whose row it is: every row counts as a person of its own."


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
            "A range of numbers holds what is at least its lower and below its upper bound; the upper bound itself "
            "only where it ends the domain."
        )
    single = [role.name for role in numbers if role.holds_single_units]
    if single and not publication.noisy:
        yield (
            f"A cell holds only one whole number, day or second, so that a range of one cell tells such a value: "
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
        yield f"Values outside the domain count as its nearest end (clamp){meaning}: {', '.join(clamped)}."


def _writes_bounds(job: JobFile) -> bool:
    return job.policy.publication(job.schema).form != "points" and job.numbers in (None, "bounds")


def formulas(job: JobFile) -> Iterator[str]:
    """What becomes of text that a spreadsheet would run."""
    csv = csv_of(job.sink.options)
    if csv is None:
        return
    if csv.formulas == "escape":
        yield "Text that a spreadsheet would run as a formula gets an apostrophe; audit, measure and cuts undo that."
    elif csv.formulas == "refuse":
        yield "Rows with text that a spreadsheet would run as a formula are rejected."
    else:
        yield "Texts that a spreadsheet would run as formulas are published as they are: open the output in none."
