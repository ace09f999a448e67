"""Arrow tables as bytes."""

import pyarrow as pa


def table_to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    return bytes(table_to_buffer(table))


def table_to_buffer(table: pa.Table) -> pa.Buffer:
    """The same, for who can take it without a copy."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def table_from_bytes(data: bytes) -> pa.Table:
    """The table in an Arrow stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
