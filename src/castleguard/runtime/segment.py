"""Segments: what a job has released and rejected since its last commit, and released tables as bytes."""

from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(kw_only=True)
class Segment:
    """What has been released and rejected since the last commit."""

    tables: list[pa.Table] = field(default_factory=list, repr=False)
    letters: list[bytes] = field(default_factory=list, repr=False)
    rows: int = 0
    due: float | None = None
    """When the rows may be delivered, where presence is promised."""
    dirty: bool = False
    """Whether anything has happened that a restart would have to repeat."""

    def add(self, released: pa.Table, due: float | None) -> None:
        """Gather a table."""
        if not released.num_rows:
            return
        if due is not None:
            # One piece, however the rows that closed the window were cut: pieces show in some formats.
            self.due, released = due, released.combine_chunks()
        self.tables.append(released)
        self.rows += released.num_rows
        self.dirty = True

    def to_bytes(self) -> bytes:
        """The released rows as one Arrow stream; empty if there are none."""
        return _to_bytes(self.tables) if self.tables else b""

    @property
    def size(self) -> int:
        """Released and rejected rows."""
        return self.rows + len(self.letters)


def _to_bytes(tables: list[pa.Table]) -> bytes:
    """Released tables as one Arrow stream, with the types of the last one: a column may have been all null before."""
    schema = tables[-1].schema
    out = pa.BufferOutputStream()
    # Compressed: what is published repeats itself, and a store that wipes what it forgets writes all of it three times.
    with pa.ipc.new_stream(out, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        for table in tables:
            writer.write_table(table if table.schema == schema else table.cast(schema))
    return bytes(out.getvalue())


def from_bytes(data: bytes) -> pa.Table:
    """The table that `Segment.to_bytes` wrote."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
