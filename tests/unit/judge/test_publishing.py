"""Streams run by a judge: seeds repeat, rows are pushed by arrival time, and releases are recorded."""

import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.engine import Flags
from castleguard.algorithms.stages import Keys, Stages
from castleguard.judge.publishing import in_words, publish_timed, publisher, quiet
from castleguard.release.encode import Numbers
from castleguard.schema.coded import CodedRows, Decisions
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from castleguard.stream import Anonymiser
from castleguard.telemetry.logs import LOG
from tests.contract.toy import Toy, ToyEngine

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)],
    sensitive=[Sensitive("illness", values=["cold", "flu", "rare"])],
)
ROWS: list[dict[str, Any]] = [
    {"pid": number, "age": 40 + number, "illness": ("flu", "flu", "cold")[number % 3], "now": 5.0}
    for number in range(8)
]


def test_rows_are_pushed_once_per_arrival_time() -> None:
    late = [{**row, "now": 9.0} for row in ROWS]
    stream = pa.Table.from_pylist([*ROWS, *late])
    policy = Castle(k=2, delay=100, max_wait=4)
    by_time = publisher(SCHEMA, policy, clock="now")(stream, 1)
    assert [table.num_rows for table in by_time] == [0, 8, 8]
    at_once = publisher(SCHEMA, policy)(stream, 1)
    assert [table.num_rows for table in at_once] == [0, 16]
    assert by_time[0].schema == by_time[2].schema


def test_same_seed_gives_the_same_tables() -> None:
    publish, stream = publisher(SCHEMA, Castle(k=2, delay=4)), pa.Table.from_pylist(ROWS)
    one, other = publish(stream, 3), publish(stream, 3)
    assert all(here.equals(there) for here, there in zip(one, other, strict=True))
    assert sum(table.num_rows for table in one) == len(ROWS)


def test_policy_is_described_by_its_non_default_parameters() -> None:
    assert in_words(Castle(k=4, delay=5)) == "castle(k=4, delay=5)"
    assert in_words(Castle(k=4, delay=5, l=3, mode="paper")) == "castle(k=4, delay=5, l=3, mode=paper)"


def test_only_errors_are_logged_while_it_is_quiet() -> None:
    level = LOG.level
    with quiet():
        assert not LOG.isEnabledFor(logging.WARNING)
        assert LOG.isEnabledFor(logging.ERROR)
    assert LOG.level == level


def test_releases_equal_those_of_rows_pushed_one_by_one() -> None:
    """The column that numbers the rows changes neither groups nor order."""
    rows = [{"pid": n, "age": n * n % 97, "illness": ("flu", "cold", "rare")[n % 3]} for n in range(120)]
    policy = Castle(k=3, delay=15)
    timed = publish_timed(SCHEMA, policy, pa.Table.from_pylist(rows), seed=4, step=7)
    stream = Anonymiser(SCHEMA, policy, seed=4)
    calls = [stream.push([row]) for row in rows]
    assert timed.published.equals(pa.concat_tables([*calls, stream.flush()]).combine_chunks())
    moments = [at + 1 for at, table in enumerate(calls) for _ in range(table.num_rows)]
    before_end = ~timed.at_end[timed.release]
    assert timed.arrived[timed.release][before_end].tolist() == moments
    assert set(timed.arrived[timed.at_end].tolist()) == {120}


def test_rejected_rows_are_not_accepted() -> None:
    rows = [{"pid": n, "age": None if n % 4 == 1 else 40, "illness": "flu"} for n in range(12)]
    timed = publish_timed(SCHEMA, Castle(k=3, delay=4), pa.Table.from_pylist(rows), seed=4)
    assert timed.accepted.tolist() == [0, 2, 3, 4, 6, 7, 8, 10, 11]
    assert sorted(timed.row.tolist()) == timed.accepted.tolist()
    assert timed.arrived.max() == 9


def test_impossible_moment_counts_as_the_end_of_its_step() -> None:
    """This engine reports all rows of its step as arrived, and the size of a step bounds the error."""
    schema = Schema(person="pid", quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)])
    table = pa.table({"pid": list(range(24)), "age": [5 * n % 90 for n in range(24)]})
    for step, moments in ((1, [6, 12, 18, 24]), (4, [8, 12, 20, 24])):
        timed = publish_timed(schema, Toy(k=2, together=6), table, seed=1, step=step)
        assert timed.arrived.tolist() == moments
        assert timed.release.tolist() == [0] * 6 + [1] * 6 + [2] * 6 + [3] * 6
    timed = publish_timed(schema, Liar(k=2, together=6), table, seed=1, step=4)
    assert timed.arrived.tolist() == [8, 12, 20, 24]


@dataclass(frozen=True, kw_only=True)
class Liar(Toy):
    """Engine that reports no arrivals at its decisions."""

    name: ClassVar[str] = "liar"

    def stages(self, schema: Schema, keys: Keys, *, numbers: Numbers | None = None) -> Stages:
        """With another engine."""
        return super().stages(schema, keys, numbers=numbers)._replace(engine=_LyingEngine(schema, self))


class _LyingEngine(ToyEngine):
    def push(self, rows: CodedRows, now: float, present: Flags | None = None) -> Decisions:
        """True groups with impossible moments."""
        decided = super().push(rows, now, present)
        return decided._replace(seen=np.zeros_like(decided.seen))
