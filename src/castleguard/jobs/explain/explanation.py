"""Explanation of a job as a value; its text is the output of `castleguard explain`."""

import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from castleguard.config.job_model import JobFile
from castleguard.errors import CastleguardError
from castleguard.jobs.assemble import make_stream
from castleguard.jobs.explain import column_outputs, paragraphs
from castleguard.jobs.explain.column_outputs import ColumnOutput
from castleguard.jobs.explain.paragraphs import spell_endpoint
from castleguard.jobs.stored_state import promised
from castleguard.privacy.guarantee import Guarantee

WIDTH = 100


@dataclass(frozen=True)
class Section:
    """Sentences about one subject."""

    title: str
    points: tuple[str, ...] = ()
    """Entries of a list, for example one per column, before the sentences."""
    sentences: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.title, *(_wrapped(each, "  ") for each in self.points), *map(_wrapped, self.sentences)])


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a job does and promises. `str()` is the whole text."""

    job: str  # its name
    opening: str  # source and sink, in one line
    columns: tuple[ColumnOutput, ...]
    """The output of every declared column."""
    guarantee: Guarantee
    sections: tuple[Section, ...]

    def as_json(self) -> dict[str, Any]:
        """The explanation for JSON."""
        return {
            "job": self.job,
            "opening": self.opening,
            "columns": [each._asdict() for each in self.columns],
            "guarantee": asdict(self.guarantee),
            "sections": [
                {"title": each.title, "points": list(each.points), "sentences": list(each.sentences)}
                for each in self.sections
            ],
        }

    def __str__(self) -> str:
        return "\n\n".join([self.opening, *map(str, self.sections)])


def explain_job(job: JobFile) -> Explanation:
    """Explain a job. Reads no data; raises ConfigError if the policy does not support the schema."""
    make_stream(job)
    guarantee = _guarantee(job)
    claim = () if guarantee.privacy is None else (guarantee.privacy.sentence,)
    sections = [
        _section("What each column becomes", column_outputs.formulas(job), points=column_outputs.sentences(job)),
        _section("What is promised", (guarantee.promise, *claim, " ".join(guarantee.limits))),
    ]
    if job.sites is not None:
        sections.append(_section("Other sites", paragraphs.sites(job)))
    if job.spark is not None:
        sections.append(_section("Shards", paragraphs.shards(job)))
    sections += [
        _section("Delay and memory", paragraphs.delay(job)),
        _section("After a stop or a crash", paragraphs.restart(job)),
        _section("Rows that cannot be used", paragraphs.bad_rows(job)),
        _section("At the end", (*paragraphs.end(job), *paragraphs.epochs(job))),
    ]
    return Explanation(
        job=job.name,
        opening=f"{job.name}: from {spell_endpoint(job.source)} to {spell_endpoint(job.sink)}.",
        columns=tuple(column_outputs.outputs(job)),
        guarantee=guarantee,
        sections=tuple(sections),
    )


def _section(title: str, sentences: Iterable[str], *, points: Iterable[str] = ()) -> Section:
    return Section(title, tuple(points), tuple(each for each in sentences if each))


def _guarantee(job: JobFile) -> Guarantee:
    if job.spark is None:
        try:
            return promised(job)
        except CastleguardError:  # the job is running, or its checkpoint is unreadable, which `validate` reports
            return job.policy.guarantee(job.schema, seeded=False)
    from castleguard.spark.spark_job import plan_of
    from castleguard.spark.spark_job import promised as promised_in_spark

    return promised_in_spark(job, plan_of(job))


def _wrapped(sentence: str, indent: str = "") -> str:
    lines = textwrap.wrap(sentence, WIDTH, initial_indent=indent, subsequent_indent=indent * 2, break_long_words=False)
    return "\n".join(lines)
