"""Checkpoints of the former format: converted if their job has ended, refused otherwise.

A job that has ended holds no stream, and everything else means the same in both formats.
"""

import json
import sqlite3
from typing import Any, NamedTuple

FORMAT = 2
TABLES = {
    "latest": "CREATE TABLE latest (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER, delivered INTEGER, "
    "ended TEXT, letters_at INTEGER, facts BLOB, segment BLOB, letters BLOB)",
    "state": "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), snapshot BLOB)",
    "lock": "CREATE TABLE lock (sealed BLOB)",
}


class Former(NamedTuple):
    """A checkpoint of the former format."""

    proof: bytes | None
    """A sealed constant that opens only with its key; None without a key."""
    latest: tuple[Any, ...] | None
    """Number, end, length of the dead letters, and stored facts; None before the first commit."""
    ended: bool
    """Whether it holds neither a stream nor undelivered rows."""


def read_former(database: sqlite3.Connection) -> Former:
    """Read the tables. Raises sqlite3.Error, TypeError."""
    proof = database.execute("SELECT sealed FROM lock").fetchone()[0]
    row = database.execute(
        "SELECT number, ended, letters_at, facts, delivered, snapshot IS NULL FROM latest LEFT JOIN state "
        "ON latest.id = state.id"
    ).fetchone()
    if row is None:
        return Former(proof, None, True)
    return Former(proof, row[:4], bool(row[1] is not None and row[4] and row[5]))


def facts_of(opened: bytes | None) -> dict[str, Any]:
    """Position, books and identity, from the stored facts."""
    found: dict[str, Any] = json.loads(opened or b"{}")
    return found
