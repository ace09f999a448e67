"""The one output of a stream in Spark: published rows, rejects and books, told apart by the column `outcome`.

They leave together because the operator has one output; two queries would be two states, and two releases of every row.
Only rows whose outcome is "published" are for others. The rest is for the operator, and holds no value of any row.
"""

import pyarrow as pa

from castleguard.shards.plan import Plan
from castleguard.shards.shard import Outcome
from castleguard.stream import Anonymiser

OUTCOME = "outcome"
PUBLISHED, REJECTED, COUNTS = "published", "rejected", "counts"
SHARD, PLACE, DETAIL = "shard", "place", "detail"
OWN = (OUTCOME, SHARD, PLACE, DETAIL)
"""Columns that are not the published ones."""


def output_schema(plan: Plan, rows: pa.Schema) -> pa.Schema:
    """Names and types of everything that comes out, if such rows come in."""
    stream = Anonymiser(plan.schema, plan.policy, numbers=plan.numbers)
    published = stream.push(rows.empty_table(), now=0.0).schema
    own = [pa.field(SHARD, pa.int32()), pa.field(PLACE, pa.string()), pa.field(DETAIL, pa.string())]
    return pa.schema([pa.field(OUTCOME, pa.string(), nullable=False), *published, *own])


def output_tables(outcome: Outcome, shard: int, schema: pa.Schema) -> list[pa.Table]:
    """What came of a call, with the columns of the output."""
    tables = [_filled(table, PUBLISHED, schema) for table in outcome.published]
    if outcome.rejected:
        places, reasons = zip(*outcome.rejected, strict=True)
        tables.append(_filled(_own(shard, list(places), list(reasons)), REJECTED, schema))
    return [*tables, _filled(_own(shard, [None], [outcome.counts]), COUNTS, schema)]


def _own(shard: int, places: list[str | None], details: list[str]) -> pa.Table:
    columns = {SHARD: pa.array([shard] * len(details), pa.int32()), PLACE: pa.array(places, pa.string())}
    return pa.table({**columns, DETAIL: pa.array(details, pa.string())})


def _filled(table: pa.Table, outcome: str, schema: pa.Schema) -> pa.Table:
    """The table with every column of the output, null where it says nothing."""
    columns = []
    for field in schema:
        if field.name == OUTCOME:
            columns.append(pa.repeat(outcome, table.num_rows))
        elif field.name in table.column_names:
            columns.append(table.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(table.num_rows, field.type))
    return pa.table(columns, schema=schema)
