"""Messages of CSV: the values of one row, or of one per line, without a header; by the rules of `connectors.csv`."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from castleguard.connectors.csv import UNREADABLE, text_of
from castleguard.connectors.csv_options import DEFAULT, CsvOutput
from castleguard.connectors.text import BYTE_ORDER_MARK, as_long_text, is_utf8, long


class CsvBlock:
    """Reads lines of CSV."""

    def __init__(self, columns: Sequence[str], order: Sequence[str]) -> None:
        self.schema = pa.schema([(name, pa.string()) for name in columns])
        self._order = list(order)
        # A known row before the lines and one behind them: if both come back, no quote was left open.
        self._known = b",".join([b"x"] * len(self._order))
        self._convert = pacsv.ConvertOptions(
            include_columns=list(columns),
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,  # checked before
        )

    def split(self, payload: bytes) -> list[bytes]:
        """The lines of a message. A line end between quotes belongs to a value, unless a quote is never closed."""
        pieces = payload.strip(b"\r\n").split(b"\n")
        if len(pieces) > 1 and b'"' in payload:
            joined = pieces[:1]
            for piece in pieces[1:]:
                if joined[-1].count(b'"') % 2:
                    joined[-1] += b"\n" + piece
                else:
                    joined.append(piece)
            pieces = pieces if joined[-1].count(b'"') % 2 else joined
        return [line for piece in pieces if (line := piece.rstrip(b"\r"))]

    def many(self, lines: Sequence[bytes]) -> pa.Table | None:
        """All lines at once; None if that is not safe."""
        block = b"\n".join([self._known, *lines, self._known])
        # A line without a line end inside is one row at most, so as many rows as lines are one from each.
        if block.count(b"\n") != len(lines) + 1 or b"\r" in block or b"\n" + BYTE_ORDER_MARK in block:
            return None
        if not is_utf8(block):
            return None
        table, wrong = self._parse(block)
        return table.slice(1, len(lines)) if table.num_rows == len(lines) + 2 and not wrong else None

    def one(self, line: bytes) -> tuple[str | None, ...] | str:
        """The values of one line, or why it has none."""
        valid = is_utf8(line)
        data = line if valid else line.decode(errors="replace").encode()
        table, wrong = self._parse(b"\n".join([self._known, data, self._known]))
        if wrong == 1 and table.num_rows == 2:
            return "it has a wrong number of values"
        if wrong or table.num_rows != 3:
            return "it has an unclosed quote or a stray line end"
        values = tuple(column[1].as_py() for column in table.columns)
        if not valid and any(value is not None and UNREADABLE in value for value in values):
            return "it is not UTF-8"
        return values

    def _parse(self, block: bytes) -> tuple[pa.Table, int]:
        """The rows of a block and how many others there are, with a wrong number of values."""
        wrong = 0

        def skip(_row: pacsv.InvalidRow) -> str:
            nonlocal wrong
            wrong += 1
            return "skip"

        try:
            table = pacsv.read_csv(
                pa.BufferReader(block),
                pacsv.ReadOptions(column_names=self._order, block_size=3 * len(block), use_threads=False),
                pacsv.ParseOptions(invalid_row_handler=skip),
                self._convert,
            )
        except pa.ArrowException:
            return self.schema.empty_table(), wrong
        return table, wrong


def render_rows(table: pa.Table, options: CsvOutput = DEFAULT) -> Any:
    """Every row as a line without its end. The columns must not be nested, and there must be a row."""
    alone = table.num_columns == 1
    columns = [_as_csv(text_of(table.column(name), name, options), alone) for name in table.column_names]
    return pc.binary_join_element_wise(*columns, long(","))


def _as_csv(texts: Any, alone: bool) -> Any:
    """Texts as CSV values, quoted where needed; a row of one empty value still is a row."""
    texts = pc.fill_null(as_long_text(texts), "")
    special = pc.match_substring_regex(texts, '[",\r\n]')
    if alone:
        special = pc.or_(special, pc.equal(texts, ""))
    if not pc.any(special).as_py():
        return texts
    quoted = pc.binary_join_element_wise(long('"'), pc.replace_substring(texts, '"', '""'), long('"'), long(""))
    return pc.if_else(special, quoted, texts)
