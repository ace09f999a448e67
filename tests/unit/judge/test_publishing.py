"""Streams that a judge runs: the same seed gives the same tables, and rows are pushed by their time."""

import logging
from typing import Any

import pyarrow as pa

from castleguard.algorithms.castle.policy import Castle
from castleguard.judge.publishing import in_words, publisher, quiet
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from castleguard.telemetry.logs import LOG

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)],
    sensitive=[Sensitive("illness", values=["cold", "flu", "rare"])],
)
ROWS: list[dict[str, Any]] = [
    {"pid": number, "age": 40 + number, "illness": ("flu", "flu", "cold")[number % 3], "now": 5.0}
    for number in range(8)
]


def test_rows_are_pushed_by_their_time() -> None:
    late = [{**row, "now": 9.0} for row in ROWS]
    stream = pa.Table.from_pylist([*ROWS, *late])
    policy = Castle(k=2, delay=100, max_wait=4)
    by_time = publisher(SCHEMA, policy, clock="now")(stream, 1)
    assert [table.num_rows for table in by_time] == [0, 8, 8]
    at_once = publisher(SCHEMA, policy)(stream, 1)
    assert [table.num_rows for table in at_once] == [0, 16]
    assert by_time[0].schema == by_time[2].schema


def test_the_same_seed_gives_the_same_tables() -> None:
    publish, stream = publisher(SCHEMA, Castle(k=2, delay=4)), pa.Table.from_pylist(ROWS)
    one, other = publish(stream, 3), publish(stream, 3)
    assert all(here.equals(there) for here, there in zip(one, other, strict=True))
    assert sum(table.num_rows for table in one) == len(ROWS)


def test_a_policy_is_told_by_what_differs_from_its_defaults() -> None:
    assert in_words(Castle(k=4, delay=5)) == "castle(k=4, delay=5)"
    assert in_words(Castle(k=4, delay=5, l=3, mode="paper")) == "castle(k=4, delay=5, l=3, mode=paper)"


def test_only_errors_are_logged_while_it_is_quiet() -> None:
    level = LOG.level
    with quiet():
        assert not LOG.isEnabledFor(logging.WARNING)
        assert LOG.isEnabledFor(logging.ERROR)
    assert LOG.level == level
