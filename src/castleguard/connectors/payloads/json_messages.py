"""Messages of JSON: one object, or one per line, as text by the rules of `connectors.jsonl`."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.json as pajson

from castleguard.connectors.json_values import (
    MANY_BRACKETS,
    exact_columns,
    may_be_deep,
    parse_object,
    value_as_text,
)
from castleguard.connectors.text import is_utf8

_GUESS_LINES = 16  # looked at to guess the types of a block; a wrong guess costs time only


class JsonBlock:
    """Reads lines of JSON."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.schema = pa.schema([(name, pa.string()) for name in columns])

    def split(self, payload: bytes) -> list[bytes]:
        """The lines of a message; one object that is laid out over several is one line."""
        data = payload.strip(b" \t\r\n")
        if b"\n" not in data:
            return [data] if data else []
        if isinstance(parse_object(data), dict):
            return [data.replace(b"\n", b" ")]
        return [line for piece in data.split(b"\n") if (line := piece.strip(b" \t\r"))]

    def many(self, lines: Sequence[bytes]) -> pa.Table | None:
        """All lines at once; None if that is not safe."""
        block = b"\n".join(lines)
        breaks = len(lines) - 1
        # With braces at both ends of every line no object can reach from one line into the next, because after an
        # inner brace only a comma or a closing one may follow. So as many rows as lines are one from each.
        if not block.startswith(b"{") or not block.endswith(b"}"):
            return None
        if block.count(b"\n") != breaks or block.count(b"}\n{") != breaks:
            return None
        # A zero byte would end the parser's input, and it follows any nesting, which `one` does not.
        if b"\0" in block or _may_be_deep(block, lines) or not is_utf8(block):
            return None
        if (types := self._guess(lines)) is None:
            return None
        table = _read_block(block, types)
        if table is None or table.num_rows != len(lines):
            return None
        columns = exact_columns(table, types.names, block, _read_block)
        if columns is None:
            return None
        return pa.table([column.cast(pa.string()) for column in columns], schema=self.schema)

    def one(self, line: bytes) -> tuple[str | None, ...] | str:
        """The values of one line, or why it has none."""
        row = parse_object(line)
        if isinstance(row, str):
            return "it is not one JSON object" if is_utf8(line) else "it is not UTF-8"
        return tuple(value_as_text(row.get(name)) for name in self.schema.names)

    def _guess(self, lines: Sequence[bytes]) -> pa.Schema | None:
        """The type of each declared key, from the first lines; None if there are several.

        Never left to the parser: a value that is nested a million times would become a type nested as deep.
        """
        sample = [row for line in lines[:_GUESS_LINES] if isinstance(row := parse_object(line), dict)]
        guess: dict[str, pa.DataType] = {}
        for name in self.schema.names:
            kinds = {type(value) for row in sample if (value := row.get(name)) is not None}
            if not kinds or kinds == {str}:
                guess[name] = pa.string()
            elif kinds == {bool}:
                guess[name] = pa.bool_()
            elif kinds == {int}:
                guess[name] = pa.int64()
            elif kinds <= {int, float}:
                guess[name] = pa.float64()
            else:
                return None
        return pa.schema(guess)


def _read_block(block: bytes, types: pa.Schema) -> pa.Table | None:
    try:
        return pajson.read_json(
            pa.BufferReader(block),
            pajson.ReadOptions(use_threads=False, block_size=len(block) + 1),
            pajson.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowException:
        return None


def _may_be_deep(block: bytes, lines: Sequence[bytes]) -> bool:
    nested = block.count(b"{") - len(lines) + block.count(b"[")
    return nested > MANY_BRACKETS and may_be_deep(lines)
