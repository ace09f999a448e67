"""Audit and measure a publication in Python: frames, files and jobs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from castleguard.connectors.csv_input import PLAIN, CsvInput, csv_input_of
from castleguard.connectors.csv_options import csv_of
from castleguard.connectors.formats import Format
from castleguard.errors import InputError
from castleguard.jobs.publication import Published, files_of, read_original, read_published
from castleguard.schema.table import to_table

if TYPE_CHECKING:
    from castleguard.algorithms.policy import Policy
    from castleguard.config.job_model import JobFile
    from castleguard.judge.measure.utility import Utility
    from castleguard.judge.report.findings import Audit
    from castleguard.schema.roles import Schema


class _Original(NamedTuple):
    """Original rows: a frame or a path, with the format if the file extension does not set it."""

    data: object
    format: Format | None = None
    csv: CsvInput = PLAIN


def audit(  # noqa: PLR0913 (options, by keyword only)
    original: object,
    published: object,
    schema: "Schema",
    policy: "Policy",
    *,
    link: str | None = None,
    population: object = None,
    threshold: float = 0.2,
    attack_runs: int = 50,
    observed_rows: int = 100_000,
    formulas: str | None = None,
    csv: CsvInput = PLAIN,
) -> "Audit":
    """Audit a publication against its original: recount every group and run the known attacks.

    `original`, `published` and `population` are frames or paths. `link` names a row-number column of both; without it
    the audit can find a broken promise, but cannot prove that a promise was kept. `population` is a table of all
    persons who may be in the data. `threshold`: persons with a higher risk are counted. `attack_runs`: guesses in the
    attack that counts rows. `observed_rows`: rows published again for the observer who knows arrival times, at least
    four delays; 0 skips it. `formulas`: the option that published CSV was written with. `csv`: how an original CSV file
    is written.
    """
    return _audit(
        _Original(original, csv=csv),
        published,
        schema,
        policy,
        formulas=formulas,
        population=population,
        link=link,
        threshold=threshold,
        attack_runs=attack_runs,
        observed_rows=observed_rows,
    )


def audit_job(job: "JobFile", **options: Any) -> "Audit":
    """Audit the output of a job that reads and writes files. Options as for `audit`."""
    before, format, after = files_of(job)
    csv = csv_of(job.sink.options)
    formulas = None if csv is None else csv.formulas
    return _audit(
        _Original(before, format, csv_input_of(job.source.options)),
        after,
        job.schema,
        job.policy,
        formulas=formulas,
        **options,
    )


def _audit(
    original: _Original,
    published: object,
    schema: "Schema",
    policy: "Policy",
    *,
    formulas: str | None,
    population: object = None,
    link: str | None = None,
    **options: Any,
) -> "Audit":
    from castleguard.judge.audit.audit_run import audit as look
    from castleguard.judge.audit.material import Material

    shown = _published(published, formulas)
    material = Material(
        original=_original(original, schema, link),
        published=shown.rows,
        unread_lines=shown.unread_lines,
        unread_files=shown.unread_files,
        schema=schema,
        policy=policy,
        population=None if population is None else _published(population, "keep").rows,
        link=link,
        **options,
    )
    return look(material, names={"original": _name(original.data), "published": _name(published)})


def measure(  # noqa: PLR0913 (options, by keyword only)
    original: object,
    published: object,
    schema: "Schema",
    *,
    link: str | None = None,
    k: int | None = None,
    queries: int = 5000,
    selectivity: float = 0.1,
    window: int | None = None,
    sample_rate: float = 1.0,
    label: str | None = None,
    runs: int = 3,
    seed: int = 0,
    formulas: str | None = None,
    csv: CsvInput = PLAIN,
) -> "Utility":
    """Measure the utility of a published table: lost detail, counts, single numbers, learning.

    `original` and `published` are frames or paths, `link` is a row-number column of both, `k` the promised k. Each
    `window` of rows gets `queries` COUNT queries of this `selectivity` (0: none); `sample_rate` is the share of rows
    that was sampled. With `label`, classifiers are trained `runs` times to predict that column. `csv`: how an original
    CSV file is written. The figures depend on original rows: do not publish them.
    """
    from castleguard.judge.measure.learning import Learning
    from castleguard.judge.measure.queries import Workload
    from castleguard.judge.measure.utility import Asked, measure_utility

    workload = None
    if queries:
        workload = Workload(selectivity=selectivity, queries=queries, window=window, seed=seed, sample_rate=sample_rate)
    asked = Asked(link=link, k=k, workload=workload, label=label, learning=Learning(runs=runs, seed=seed))
    before = _original(_Original(original, csv=csv), schema, link)
    return measure_utility(_published(published, formulas).rows, before, schema, asked)


def _original(original: _Original, schema: "Schema", link: str | None) -> pa.Table:
    """The declared columns of the original rows, and the link column."""
    columns = list(dict.fromkeys([*schema.columns, *([link] if link else [])]))
    if isinstance(original.data, str | os.PathLike):
        return read_original(Path(original.data), columns, format=original.format, csv=original.csv)
    table = to_table(original.data, columns, person=schema.person)
    for name in columns:
        if name not in table.column_names:
            raise InputError(f"the original table has no column {name!r}")
    return table.select(columns)


def _published(published: object, formulas: str | None) -> Published:
    if isinstance(published, str | os.PathLike):
        return read_published(Path(published), formulas)
    return Published(to_table(published), 0, 0)


def _name(data: object) -> str:
    return str(Path(data)) if isinstance(data, str | os.PathLike) else "rows in memory"
