"""Messages to rows and rows to messages, for the brokers: what is in a message does not depend on who carries it.

    json     one object per message, or one per line
    csv      the values of one row, or of one per line, without a header
    arrow    an Arrow IPC stream

Whoever sends messages is not trusted. A message that cannot be read is handed back with the reason and never stops the
others, and what is read from a message does not depend on the messages that arrived with it. Many messages are parsed
at once: a parser that is started for each would cost more than everything else.
"""

from collections.abc import Sequence

import pyarrow as pa

from castleguard.connectors.csv_options import DEFAULT, CsvOutput
from castleguard.connectors.holding import check_held
from castleguard.connectors.json_values import render_objects
from castleguard.connectors.payloads.arrow_messages import ARROW_ROWS, read_arrow, write_arrow
from castleguard.connectors.payloads.base import BadPayload, Format, Payloads, read_lines
from castleguard.connectors.payloads.csv_messages import CsvBlock, render_rows
from castleguard.connectors.payloads.json_messages import JsonBlock

__all__ = ["ARROW_ROWS", "BadPayload", "Format", "Payloads", "check_payloads", "read_payloads", "write_payloads"]


def read_payloads(
    format: Format, payloads: Sequence[bytes], columns: Sequence[str], columns_order: Sequence[str] = ()
) -> Payloads:
    """The rows of some messages. `columns_order` names the values of a CSV line from left to right; declared columns
    must be among them, each once.
    """
    if format == "arrow":
        return read_arrow(payloads, columns)
    return read_lines(payloads, JsonBlock(columns) if format == "json" else CsvBlock(columns, columns_order))


def check_payloads(format: Format, columns: pa.Schema, where: str) -> None:
    """Raise OutputError if messages of the format cannot hold these columns."""
    check_held(columns, "jsonl" if format == "json" else format, where)


def write_payloads(
    format: Format, table: pa.Table, *, arrow_rows: int = ARROW_ROWS, csv: CsvOutput = DEFAULT
) -> list[bytes]:
    """The messages of a table, the same ones every time: one per row, in Arrow one per `arrow_rows` rows at most.

    Raises OutputError if the format cannot hold a column, as `check_payloads` does.
    """
    if format == "arrow":
        return write_arrow(table, arrow_rows)
    check_payloads(format, table.schema, "messages")
    if not table.num_rows:
        return []
    messages = render_objects(table) if format == "json" else render_rows(table, csv)
    return list(messages.cast(pa.large_binary()).to_pylist())
