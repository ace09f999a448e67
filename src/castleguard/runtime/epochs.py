"""Epochs of a job: an epoch lasts from the start of a stream to the finish or drain that flushes it.

Each epoch has its own statement. A job keeps all statements in its checkpoint, with the parts published under each;
readers of the parts find them in `_castleguard.json`. Where the row counts per person did not carry over from one epoch
to the next, the later statement gives the guarantee of all epochs together.
"""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from castleguard.checkpoint.codec import differences
from castleguard.checkpoint.store import Checkpoint
from castleguard.errors import SnapshotError
from castleguard.privacy.guarantee import Guarantee
from castleguard.privacy.parameters import rounded_up
from castleguard.schema.person import CANONICAL_FORM
from castleguard.schema.roles import Schema

_MOST = 1000
"""Epochs that are kept separately; beyond that, adjacent ones with the same statement are merged."""


@dataclass(frozen=True, kw_only=True)
class Described:
    """Identity and guarantee of one stream."""

    identity: dict[str, Any]
    """Policy, schema and the form of numbers, as JSON values."""
    guarantee: Guarantee
    counting: dict[str, Any] | None
    """The windows in which rows per person are counted; None if they are not counted."""

    def facts(self) -> dict[str, Any]:
        """Return what distinguishes the output from that of another stream, the schema as a fingerprint."""
        return {
            "policy": self.identity["policy"],
            "schema": _digest(self.identity["schema"]),
            "numbers": self.identity["numbers"],
        }

    def claim(self) -> dict[str, Any] | None:
        """Return the claim of differential privacy as JSON values; None if none holds."""
        privacy = self.guarantee.privacy
        if privacy is None or privacy.void:
            return None
        windows = {name: (self.counting or {}).get(name) for name in ("window", "aligned", "unit")}
        claim: dict[str, Any] = json.loads(json.dumps({**asdict(privacy), "windows": windows}))
        return claim


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The parts published under one statement."""

    statement: str  # a key of `Epochs.statements`
    first: int  # number of its first part, if it has parts
    sink: str  # digest of the sink's identity
    last: int | None = None
    """The number of its last part; None while it is open, and below `first` if nothing was published."""
    ended: str | None = None
    counts_on: bool = False  # whether it adopted the row counts per person of the previous epoch


@dataclass(kw_only=True)
class Epochs:
    """All epochs of a job, the open one last."""

    statements: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Policy, schema, form of numbers, version, statement in words and claim, by their digest."""
    epochs: list[Epoch] = field(default_factory=list)
    last_part: int = 0
    """The number of the last part of all epochs."""

    @classmethod
    def load(cls, facts: dict[str, Any]) -> "Epochs":
        """Load the result of `facts`."""
        return cls(
            statements=dict(facts.get("statements", {})),
            epochs=[Epoch(**epoch) for epoch in facts.get("epochs", ())],
            last_part=int(facts.get("last_part", 0)),
        )

    @classmethod
    def of(cls, latest: Checkpoint) -> "Epochs":
        """Load the epochs of a checkpoint. One of an older format yields a single epoch with an unknown statement."""
        if latest.epochs or not latest.number:
            return cls.load(latest.epochs)
        unknown: dict[str, Any] = {
            "policy": {},
            "schema": "",
            "numbers": None,
            "version": "",
            "statement": "unknown",
            "claim": None,
        }
        epoch = Epoch(
            statement="unknown", first=1, last=latest.segments, ended=latest.ended, sink=sink_name(latest.identity)
        )
        return cls(statements={"unknown": unknown}, epochs=[epoch], last_part=latest.segments)

    def facts(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "statements": self.statements,
            "epochs": [asdict(epoch) for epoch in self.epochs],
            "last_part": self.last_part,
        }

    @property
    def is_open(self) -> bool:
        """Whether the last epoch has not ended."""
        return bool(self.epochs) and self.epochs[-1].ended is None

    def begin(self, described: Described, *, version: str, sink: str, carried: bool) -> None:
        """Begin an epoch; `carried`: it adopted the row counts of the previous one."""
        if self.is_open:  # the process died before the epoch's first commit: it published nothing
            self.epochs.pop()
        statement = {
            **described.facts(),
            "version": version,
            "statement": self.together(described, carried=carried).sentence,
            "claim": described.claim(),
        }
        name = _digest(statement)
        self.statements[name] = statement
        self.epochs.append(Epoch(statement=name, first=self.last_part + 1, sink=sink, counts_on=carried))
        self._forget_unused()

    def after(self, part: int | None, ended: str | None) -> "Epochs":
        """Return the epochs after a commit, which may publish a `part` and end the open epoch (`ended`)."""
        last_part = self.last_part if part is None else part
        epochs = self.epochs
        if ended is not None:
            epochs = self._merge([*epochs[:-1], replace(epochs[-1], ended=ended, last=last_part)])
        return Epochs(statements=self.statements, epochs=epochs, last_part=last_part)

    def together(self, described: Described, *, carried: bool | None = None) -> Guarantee:
        """Return the guarantee of the open epoch's stream, with a note on that of all epochs together.

        `carried` is given for an epoch that is about to begin.
        """
        before, counts_on = self.epochs, bool(carried)
        if carried is None and self.is_open:
            before, counts_on = self.epochs[:-1], self.epochs[-1].counts_on
        claims = [self.statements[epoch.statement]["claim"] for epoch in before]
        own, periods = described.guarantee, _periods(claims, [epoch.counts_on for epoch in before])
        claim = described.claim()
        if counts_on and claims and claims[-1] == claim:
            periods = periods[:-1]
        note = _note(claim, periods)
        return replace(own, limits=(note, *own.limits)) if note else own

    def manifest(self, sink: str) -> dict[str, Any]:
        """Return the manifest for readers of a sink.

        It must not depend on unpublished rows: an epoch that ended without parts is left out.
        """
        own = [epoch for epoch in self.epochs if epoch.sink == sink]
        shown = [epoch for epoch in own if epoch.last is None or epoch.last >= epoch.first]
        used = {epoch.statement for epoch in shown}
        return {
            "format": 1,
            "statements": {name: self.statements[name] for name in sorted(used)},
            "epochs": [
                {"statement": epoch.statement, "parts": [epoch.first, epoch.last], "ended": epoch.ended}
                for epoch in shown
            ],
        }

    def _merge(self, epochs: list[Epoch]) -> list[Epoch]:
        """If there are too many epochs, merge the oldest two adjacent ones with the same statement and counts."""
        if len(epochs) <= _MOST:
            return epochs
        for at in range(1, len(epochs)):
            one, other = epochs[at - 1], epochs[at]
            claim = self.statements[other.statement]["claim"]
            adds_up = claim is not None and _is_per_person(claim) and not other.counts_on
            if (one.statement, one.sink) == (other.statement, other.sink) and not adds_up:
                joined = replace(other, first=one.first, counts_on=one.counts_on)
                return [*epochs[: at - 1], joined, *epochs[at + 1 :]]
        return epochs

    def _forget_unused(self) -> None:
        used = {epoch.statement for epoch in self.epochs}
        self.statements = {name: each for name, each in self.statements.items() if name in used}


def sink_name(identity: dict[str, Any]) -> str:
    """Return the digest of the sink in a job's identity."""
    return _digest(identity.get("sink"))


def other_parts(manifest: dict[str, Any], described: Described) -> list[str]:
    """Return a phrase for each range of parts that was published by another stream than `described`."""
    found, own = [], described.facts()
    for epoch in manifest["epochs"]:
        first, last = epoch["parts"]
        other = manifest["statements"][epoch["statement"]]
        differing = differences(own, {name: other[name] for name in own})
        if not other["policy"]:
            differing = ["version of castleguard, and an unknown policy"]
        if differing and last is not None:
            parts = f"part {first}" if first == last else f"parts {first} to {last}"
            found.append(f"{parts} published with another {' and another '.join(differing)}")
    return found


def _periods(claims: list[Any], counts_on: list[bool]) -> list[Any]:
    """Return the claims of epochs, one for each run of epochs that share their claim and their counts."""
    found: list[Any] = []
    for at, claim in enumerate(claims):
        if not (at and counts_on[at] and claim == claims[at - 1]):
            found.append(claim)
    return found


def _note(own: dict[str, Any] | None, periods: list[Any]) -> str:
    """Return the guarantee of all epochs together for a person; empty if it equals that of this epoch."""
    if own is None or not _is_per_person(own) or not periods:
        return ""
    begin = (
        "Earlier epochs of this job (runs up to a finish or drain) had another claim, or row counts per person that "
        "this epoch does not continue"
    )
    if any(claim is None for claim in periods):
        return f"{begin}, and some of them made no such claim: all epochs together promise none."
    if not all(_adds_up(own, claim) for claim in periods):
        return f"{begin}, and some of them claimed something else: all epochs together promise no bound for a person."
    everything = [own, *periods]
    covered = [name for name in own["covered"] if all(name in claim["covered"] for claim in periods)]
    epsilon = math.fsum(claim["epsilon"] for claim in everything)
    delta = min(math.fsum(claim["dp_delta"] for claim in everything), 1.0)
    if not covered or not epsilon < math.inf:
        return f"{begin}: all epochs together promise no bound for a person."
    return (
        f"{begin}. All epochs together promise, as the sum over epochs: ({rounded_up(epsilon)}, "
        f"{rounded_up(delta, 3)})-differential privacy of {own['unit']}, {own['neighbours']}, "
        f"over {own['horizon']}, for {', '.join(covered)}."
    )


def _adds_up(own: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the privacy loss over the horizon of `own`, a window or the whole stream, is at most the sum of both."""
    if not _is_per_person(other) or own["neighbours"] != other["neighbours"]:
        return False
    mine, theirs = own["windows"], other["windows"]
    if mine == theirs or theirs["window"] is None:
        return True
    sliding = not mine["aligned"] and not theirs["aligned"] and mine["unit"] == theirs["unit"]
    return sliding and mine["window"] is not None and mine["window"] <= theirs["window"]


def _is_per_person(claim: dict[str, Any]) -> bool:
    return "person" in claim["unit"]


def _digest(described: object) -> str:
    text = json.dumps(described, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def identity_of(schema: Schema, policy: dict[str, object], numbers: str) -> dict[str, Any]:
    """Return what a snapshot and the stream restored from it must share, as JSON values; `policy`: its fingerprint."""
    own = {
        "schema": schema.fingerprint(),
        "policy": policy,
        "numbers": numbers,
        "canonical_form": CANONICAL_FORM,  # a person with pending rows must keep the same hash
    }
    described: dict[str, Any] = json.loads(json.dumps(own, default=str))
    return described


def check_same_stream(identity: dict[str, Any], facts: dict[str, Any]) -> None:
    """Refuse a snapshot whose facts belong to a stream of another identity."""
    differing = differences(identity, {name: facts.get(name) for name in identity})
    if differing:
        raise SnapshotError(
            f"the snapshot belongs to a stream with another {' and another '.join(differing)}. Drain the job (or "
            f"flush the stream) with its original settings, then make the change"
        )


def counting_of(schema: Schema, counting: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return how an intake counts rows per person, as JSON values; None if it does not."""
    if counting is None:
        return None
    person = {name: value for name, value in schema.fingerprint().items() if name.startswith("person")}
    described = {**counting, **person, "canonical_form": CANONICAL_FORM}
    found: dict[str, Any] = json.loads(json.dumps(described, default=str))
    return found
