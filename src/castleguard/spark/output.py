"""The output of a stream in Spark: published rows, rejected rows and books, distinguished by the column `outcome`.

They share one output because a stateful operator has only one; two queries would have two states and release every row
twice. Only rows with the outcome "published" may be passed on. The rest is for the operator, and contains no values of
rows.
"""

import pyarrow as pa

from castleguard.shards.plan import Plan
from castleguard.shards.shard import Outcome
from castleguard.stream import Anonymiser

OUTCOME = "outcome"
PUBLISHED, REJECTED, COUNTS = "published", "rejected", "counts"
SHARD, PLACE, DETAIL = "shard", "place", "detail"
OWN = (OUTCOME, SHARD, PLACE, DETAIL)
"""Columns besides the published ones."""


def output_schema(plan: Plan, rows: pa.Schema) -> pa.Schema:
    """Return the schema of the output for input rows of this schema."""
    stream = Anonymiser(plan.schema, plan.policy, numbers=plan.numbers)
    published = stream.push(rows.empty_table(), now=0.0).schema
    own = [pa.field(SHARD, pa.int32()), pa.field(PLACE, pa.string()), pa.field(DETAIL, pa.string())]
    return pa.schema([pa.field(OUTCOME, pa.string(), nullable=False), *published, *own])


def output_tables(outcome: Outcome, shard: int, schema: pa.Schema) -> list[pa.Table]:
    """Return the result of a call as tables of the output schema."""
    tables = [_fill(table, PUBLISHED, schema) for table in outcome.published]
    if outcome.rejected:
        places, reasons = zip(*outcome.rejected, strict=True)
        tables.append(_fill(_own(shard, list(places), list(reasons)), REJECTED, schema))
    return [*tables, _fill(_own(shard, [None], [outcome.counts]), COUNTS, schema)]


def _own(shard: int, places: list[str | None], details: list[str]) -> pa.Table:
    columns = {SHARD: pa.array([shard] * len(details), pa.int32()), PLACE: pa.array(places, pa.string())}
    return pa.table({**columns, DETAIL: pa.array(details, pa.string())})


def _fill(table: pa.Table, outcome: str, schema: pa.Schema) -> pa.Table:
    """Add the missing columns of the output schema as nulls."""
    columns = []
    for field in schema:
        if field.name == OUTCOME:
            columns.append(pa.repeat(outcome, table.num_rows))
        elif field.name in table.column_names:
            columns.append(table.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(table.num_rows, field.type))
    return pa.table(columns, schema=schema)
