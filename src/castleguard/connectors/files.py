"""Files in a job: CSV, JSON lines, Parquet and Arrow, as a source and as a sink.

The type in the job file decides the format, not the ending. A name that ends in .gz is compressed text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from castleguard.connectors.base import Position, Reader, Sink, Source
from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.connectors.csv_options import DEFAULT, CsvOutput
from castleguard.connectors.file_sink import FileSink
from castleguard.connectors.file_source import FileSource
from castleguard.connectors.formats import TEXT, Format, check_batch_rows, open_reader, open_writer
from castleguard.connectors.json_paths import check_fields
from castleguard.connectors.listing import list_files
from castleguard.connectors.registry import Connector
from castleguard.errors import InputError


@dataclass(frozen=True, kw_only=True)
class FileSourceOptions:
    """Files to read."""

    path: Path = field(metadata={"identity": True})
    """A file, a folder, or a pattern such as `trips/*.csv`. Files are read in the order of their names."""
    follow: bool = False
    """Wait for new files in the folder, or for the pattern, without end."""
    batch_rows: int = 65536
    """Maximum number of rows per read."""

    def __post_init__(self) -> None:
        """Refuse a batch without rows."""
        check_batch_rows(self.batch_rows)


@dataclass(frozen=True, kw_only=True)
class CsvSourceOptions(FileSourceOptions):
    """CSV files to read."""

    csv: CsvInput = field(default=PLAIN, metadata={"identity": True})
    """How the files are written: separator, encoding, decimal mark and so on."""


@dataclass(frozen=True, kw_only=True)
class JsonSourceOptions(FileSourceOptions):
    """Files of JSON lines to read."""

    fields: dict[str, str] = field(default_factory=dict, metadata={"identity": True})
    """Paths of columns inside nested objects, such as postcode: address[0].postalCode."""

    def __post_init__(self) -> None:
        """Refuse paths that cannot be read."""
        super().__post_init__()
        check_fields(self.fields, is_json=True)


@dataclass(frozen=True, kw_only=True)
class FileSinkOptions:
    """Files to publish to."""

    path: Path = field(metadata={"identity": True})
    """A folder for the numbered parts. It is created if it is missing."""


@dataclass(frozen=True, kw_only=True)
class TextSinkOptions(FileSinkOptions):
    """Text files to publish to."""

    gzip: bool = False
    """Compress every part; its name then ends in .gz."""


@dataclass(frozen=True, kw_only=True)
class CsvSinkOptions(TextSinkOptions):
    """CSV files to publish to."""

    csv: CsvOutput = field(default=DEFAULT, metadata={"identity": True})
    """Options of CSV output."""


class NoRows:
    """Reader of an empty text file, which needs no header in a job."""

    malformed = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        return iter(())

    def fraction(self) -> float | None:
        """The whole file."""
        return 1.0

    def close(self) -> None:
        """Do nothing: no file is open."""


def _connector(format: Format) -> Connector:
    """Both directions of one format."""

    def open_file(path: Path, options: FileSourceOptions, columns: Sequence[str]) -> Reader:
        if format in TEXT and path.exists() and not path.stat().st_size:
            return NoRows()
        csv = options.csv if isinstance(options, CsvSourceOptions) else PLAIN
        fields = options.fields if isinstance(options, JsonSourceOptions) else None
        rows = options.batch_rows
        return open_reader(path, columns, batch_rows=rows, format=format, keep_bad=True, csv=csv, fields=fields)

    def open_source(options: FileSourceOptions, columns: Sequence[str], position: Position | None) -> Source:
        files = list_files(options.path, awaited=options.follow)
        if options.follow and not files.several:
            raise InputError(f"{options.path} cannot be followed: it is a file; name its folder, or a pattern")
        return FileSource(
            files,
            lambda path: open_file(path, options, columns),
            position,
            follow=options.follow,
            appended=format in TEXT,
        )

    def open_sink(options: FileSinkOptions) -> Sink:
        compressed = isinstance(options, TextSinkOptions) and options.gzip
        ending = f"{format}.gz" if compressed else format
        csv = options.csv if isinstance(options, CsvSinkOptions) else DEFAULT
        return FileSink(options.path, ending, lambda path: open_writer(path, format=format, csv=csv))

    plain = TextSinkOptions if format in TEXT else FileSinkOptions
    return Connector(
        source_options={"csv": CsvSourceOptions, "jsonl": JsonSourceOptions}.get(format, FileSourceOptions),
        sink_options=CsvSinkOptions if format == "csv" else plain,
        open_source=open_source,
        open_sink=open_sink,
    )


CSV = _connector("csv")
JSONL = _connector("jsonl")
PARQUET = _connector("parquet")
ARROW = _connector("arrow")
