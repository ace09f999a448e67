"""Measure one setting: publish the sample in memory, verify the promise, and compute loss and risk."""

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from castleguard.algorithms.policy import Policy
from castleguard.books import Report
from castleguard.judge.sweep.figures import Figures, over_runs
from castleguard.judge.sweep.judgement import Judgement, judge_cells, judge_groups
from castleguard.judge.sweep.window_judgement import judge_windows
from castleguard.schema.roles import Schema
from castleguard.stream import Anonymiser

_BATCH = 4096  # rows per push without windows of rows; Ctrl-C takes effect between pushes
_WARM = 100


@dataclass(frozen=True, eq=False)
class Ground:
    """Input shared by all settings."""

    sample: pa.Table
    """First rows of the stream, with the columns of the schema."""
    schema: Schema
    seeds: tuple[int, ...]
    """Seeds, one per run."""


def measure(ground: Ground, policy: Policy) -> Figures:
    """Run a policy once per seed. Raises CastleguardError if a publication breaks the promise of the policy."""
    return over_runs([_once(ground, policy, seed) for seed in ground.seeds])


def warm_up(ground: Ground, policy: Policy) -> None:
    """Load the compiled kernels, so that their time is not counted for a setting."""
    stream = Anonymiser(ground.schema, policy, seed=0)
    stream.push(ground.sample.slice(0, _WARM), now=0.0)
    stream.flush(warn=False)


def _once(ground: Ground, policy: Policy, seed: int) -> Figures:
    sample, schema = ground.sample, ground.schema
    link = None
    published = policy.publication(schema)
    if published.form == "boxes":
        # Boxes make no claim about public columns, so an extra one can link the rows.
        link = _free_name(sample)
        sample = sample.append_column(link, pa.array(np.arange(sample.num_rows)))
        schema = Schema(
            person=schema.person_role,
            quasi_identifiers=schema.quasi_identifiers,
            sensitive=schema.sensitive,
            public=(*schema.public, link),
        )
    stream = Anonymiser(schema, policy, seed=seed)
    started = time.perf_counter()
    # A push publishes at most one window, because some judgements need the windows separately. Windows of seconds do
    # not end here: a file has no clock, and all rows arrive at once.
    size = published.window_rows or _BATCH
    parts = [stream.push(sample.slice(at, size), now=0.0) for at in range(0, sample.num_rows, size)]
    parts.append(stream.finish(warn=False))
    seconds = time.perf_counter() - started
    parts = [part.cast(parts[-1].schema) for part in parts]
    if published.form == "cells":
        judged = judge_cells(parts, schema, published)
    elif published.form == "points":
        judged = judge_windows(parts, sample, schema, window=size, k=policy.k or 1)
    else:
        assert link is not None
        every_moment = policy.chosen_order != "input"
        judged = judge_groups(parts, sample, schema, published, link=link, every_moment=every_moment)
    return _figures(stream, judged, sample.num_rows / max(seconds, 1e-9))


def _figures(stream: Anonymiser, judged: Judgement, rows_per_second: float) -> Figures:
    report, guarantee = stream.report(), stream.guarantee()
    share = 1 / report.rows_in
    rejected = sum(report.rejected.values())
    claim = guarantee.privacy
    return Figures(
        rows=report.rows_in,
        published=report.published * share,
        suppressed=report.suppressed * share,
        sampled_out=report.sampled_out * share,
        over_budget=report.over_budget * share,
        rejected=rejected * share,
        information_loss=judged.information_loss,
        loss=_with_lost_rows(judged, report, rejected),
        untrue=judged.untrue,
        groups=judged.groups,
        smallest_group=judged.smallest_group,
        mean_risk=judged.mean_risk,
        highest_risk=judged.highest_risk,
        largest_share=judged.largest_share,
        epsilon=None if claim is None else claim.epsilon,
        delta=None if claim is None else claim.dp_delta,
        delay=guarantee.delay,
        longest_wait=report.oldest_wait,
        rows_per_second=rows_per_second,
    )


def _with_lost_rows(judged: Judgement, report: Report, rejected: int) -> float:
    readable = report.rows_in - rejected
    lost = readable - report.published
    return (judged.loss * report.published + lost) / readable if readable else 1.0


def _free_name(sample: pa.Table) -> str:
    """A name that is not the start of any column name."""
    name = "row"
    while any(column.startswith(name) for column in sample.column_names):
        name = f"_{name}"
    return name
