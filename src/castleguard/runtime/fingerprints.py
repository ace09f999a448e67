"""What tells a stream from another: its identity in snapshots, and how it counts the rows of each person."""

import json
from typing import Any

from castleguard.checkpoint.codec import differences
from castleguard.errors import SnapshotError
from castleguard.schema.identities import CANONICAL_FORM
from castleguard.schema.roles import Schema


def identity_of(schema: Schema, policy: dict[str, object], numbers: str) -> dict[str, Any]:
    """What a snapshot must have in common with the stream that continues it, as JSON has it; `policy` is a
    fingerprint.
    """
    own = {
        "schema": schema.fingerprint(),
        "policy": policy,
        "numbers": numbers,
        "canonical_form": CANONICAL_FORM,  # a person who is pending must not come again under another hash
    }
    described: dict[str, Any] = json.loads(json.dumps(own, default=str))
    return described


def check_same_stream(identity: dict[str, Any], facts: dict[str, Any]) -> None:
    """Refuse a snapshot with these facts for a stream of another identity."""
    differing = differences(identity, {name: facts.get(name) for name in identity})
    if differing:
        raise SnapshotError(
            f"the snapshot belongs to a stream with another {' and another '.join(differing)}. Drain the job "
            f"(flush the stream) with what it was made with, then change that"
        )


def counting_of(schema: Schema, counting: dict[str, Any] | None) -> dict[str, Any] | None:
    """How an intake counts the rows of a person, as JSON has it; None if it does not."""
    if counting is None:
        return None
    person = {name: value for name, value in schema.fingerprint().items() if name.startswith("person")}
    described = {**counting, **person, "canonical_form": CANONICAL_FORM}
    found: dict[str, Any] = json.loads(json.dumps(described, default=str))
    return found
