"""Exit codes: who has to mend it, judged by what an error was translated from."""

import errno
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from castleguard.cli.exit_codes import FAILED, INTERNAL_ERROR, TRY_AGAIN, WRONG_USAGE, exit_code
from castleguard.errors import CastleguardError, ConfigError, OutputError, SnapshotError, UnavailableError


def caused(error: CastleguardError, cause: Exception) -> CastleguardError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SnapshotError("damaged"), FAILED),
        (caused(OutputError("x"), PermissionError(errno.EACCES, "not allowed")), FAILED),
        (caused(OutputError("x"), OSError("without a number")), FAILED),
        (ConfigError("a mistake"), WRONG_USAGE),
        (KeyError("a mistake of ours"), INTERNAL_ERROR),
        (OSError(errno.ENOSPC, "not translated"), INTERNAL_ERROR),
        (UnavailableError("away"), TRY_AGAIN),
        (caused(OutputError("x"), OSError(errno.ENOSPC, "full")), TRY_AGAIN),
        (caused(OutputError("x"), caused(OutputError("y"), OSError(errno.EDQUOT, "full"))), TRY_AGAIN),
        (caused(OutputError("x"), OSError(errno.EADDRINUSE, "taken")), TRY_AGAIN),
    ],
)
def test_the_code_goes_by_the_error_and_its_causes(error: Exception, code: int) -> None:
    assert exit_code(error) == code


def test_a_full_disk_is_known_as_sqlite_says_it(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "state.db")
    database.execute("CREATE TABLE latest (piece BLOB)")
    database.execute("PRAGMA max_page_count = 2")
    with pytest.raises(sqlite3.OperationalError, match="full") as full:
        database.execute("INSERT INTO latest VALUES (?)", (bytes(100_000),))
    database.close()
    assert exit_code(caused(OutputError("state.db cannot be written"), full.value)) == TRY_AGAIN


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_known_as_arrow_says_it() -> None:
    # Not by its name: what cannot be written is removed, and root may remove a device.
    with pytest.raises(OSError, match="space") as full, pa.OSFile("/dev/full", "wb") as file:
        pq.write_table(pa.table({"x": range(100_000)}), file)
    assert exit_code(caused(OutputError("part-1 cannot be written"), full.value)) == TRY_AGAIN
