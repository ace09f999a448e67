"""What one commit delivers: the rows released since the last commit, and its dead letters.

Released rows are encoded as they come and kept in that form alone, because a job holds them until the next commit.
"""

from collections.abc import Iterable

import pyarrow as pa

# Compressed: published rows are repetitive, and a store that wipes deleted data writes each segment three times.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Segment:
    """Rows released, and dead letters written, since the last commit."""

    def __init__(self) -> None:
        self.letters: list[bytes] = []
        self.rows = 0
        self.size = 0
        """Bytes of the rows when they are delivered, and of the dead letters."""
        self.due: float | None = None
        """When the rows are to be delivered, where presence is promised."""
        self.dirty = False
        """Whether a restart would have to process rows again."""
        self._streams: list[_Stream] = []

    def add(self, released: pa.Table, due: float | None) -> None:
        """Add released rows."""
        if not released.num_rows:
            return
        if due is not None:
            # One chunk: some formats reveal chunks, which depend on the batches that closed the window.
            self.due, released = due, released.combine_chunks()
        if not self._streams or not self._streams[-1].takes(released.schema):
            self._streams.append(_Stream(released.schema))
        self._streams[-1].write(released)
        self.rows += released.num_rows
        self.size += released.nbytes
        self.dirty = True

    def add_letters(self, letters: Iterable[bytes]) -> None:
        """Add dead letters."""
        for letter in letters:
            self.letters.append(letter)
            self.size += len(letter)

    def to_bytes(self) -> bytes:
        """Return the released rows as Arrow streams, one after the other; empty bytes if there are none."""
        return b"".join(stream.close() for stream in self._streams)


class _Stream:
    """An Arrow stream of tables with equal types."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._out = pa.BufferOutputStream()
        self._writer = pa.ipc.new_stream(self._out, schema, options=_OPTIONS)
        self._closed: pa.Buffer | None = None

    def takes(self, schema: pa.Schema) -> bool:
        """Whether tables of this schema can be written."""
        return self._closed is None and self._schema.equals(schema)

    def write(self, table: pa.Table) -> None:
        """Write a table."""
        self._writer.write_table(table)

    def close(self) -> memoryview:
        """End the stream and return it."""
        if self._closed is None:
            self._writer.close()
            self._closed = self._out.getvalue()
        return memoryview(self._closed)


def from_bytes(data: bytes) -> pa.Table:
    """Decode the rows that `Segment.to_bytes` encoded.

    The types are those of the last stream: in earlier ones a column may be all null.
    """
    source = pa.BufferReader(data)
    tables: list[pa.Table] = []
    while source.tell() < len(data):
        with pa.ipc.open_stream(source) as reader:
            tables.append(reader.read_all())
    schema = tables[-1].schema
    return pa.concat_tables([table if table.schema.equals(schema) else table.cast(schema) for table in tables])
