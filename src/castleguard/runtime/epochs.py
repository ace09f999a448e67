"""Epochs of a job: from the begin of a stream to the finish or drain that flushes it.

Each epoch has a statement of its own. A job keeps them in its checkpoint, with the parts that were published under
each: a reader of the parts finds them in `_castleguard.json`, and the statement of a later epoch says what all epochs
together promise where the rows of a person were not counted on from one to the next.
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
"""Ended epochs that are kept apart; of more, neighbours with the same statement become one."""


@dataclass(frozen=True, kw_only=True)
class Described:
    """A stream: what makes its output what it is, and what it promises by itself."""

    identity: dict[str, Any]
    """Policy, schema and the form of numbers, as JSON has them."""
    guarantee: Guarantee
    counting: dict[str, Any] | None
    """How windows lie in which rows of a person are counted; None if they are not."""

    def facts(self) -> dict[str, Any]:
        """What tells its output from that of another stream. The schema as a fingerprint."""
        return {
            "policy": self.identity["policy"],
            "schema": _digest(self.identity["schema"]),
            "numbers": self.identity["numbers"],
        }

    def claim(self) -> dict[str, Any] | None:
        """The claim of differential privacy, as JSON has it; None if there is none that holds."""
        privacy = self.guarantee.privacy
        if privacy is None or privacy.void:
            return None
        windows = {name: (self.counting or {}).get(name) for name in ("window", "aligned", "unit")}
        claim: dict[str, Any] = json.loads(json.dumps({**asdict(privacy), "windows": windows}))
        return claim


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One epoch."""

    statement: str
    """What it promised: a key of `Epochs.statements`."""
    first: int
    """The least number that a part of it can have."""
    sink: str
    """Digest of what identifies the sink."""
    last: int | None = None
    """The last part of it; None while it is open, and below `first` if nothing was published."""
    ended: str | None = None
    counts_on: bool = False
    """Whether it went on with the counts of rows per person of the epoch before."""


@dataclass(kw_only=True)
class Epochs:
    """All epochs of a job, the open one last."""

    statements: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Policy, schema, form of numbers, version, the statement in words and its claim, by their digest."""
    epochs: list[Epoch] = field(default_factory=list)
    last_part: int = 0
    """The last part that was published, in all epochs."""

    @classmethod
    def load(cls, facts: dict[str, Any]) -> "Epochs":
        """From what `facts` gave."""
        return cls(
            statements=dict(facts.get("statements", {})),
            epochs=[Epoch(**epoch) for epoch in facts.get("epochs", ())],
            last_part=int(facts.get("last_part", 0)),
        )

    @classmethod
    def of(cls, latest: Checkpoint) -> "Epochs":
        """As a checkpoint has them. Of one of an older format nothing is known but how far it got."""
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
        """All of it, as JSON can hold it."""
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
        """Begin an epoch; `carried` says that it counts on."""
        if self.is_open:  # the process died before its first commit: nothing was published in it
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
        """The same after a commit that published `part`, if it published one, and ended the open epoch, if it did."""
        last_part = self.last_part if part is None else part
        epochs = self.epochs
        if ended is not None:
            epochs = self._fewer([*epochs[:-1], replace(epochs[-1], ended=ended, last=last_part)])
        return Epochs(statements=self.statements, epochs=epochs, last_part=last_part)

    def together(self, described: Described, *, carried: bool | None = None) -> Guarantee:
        """The statement of the open epoch: what its stream promises, and what all epochs together do. `carried`: of an
        epoch that is about to begin.
        """
        before, counts_on = self.epochs, bool(carried)
        if carried is None and self.is_open:
            before, counts_on = self.epochs[:-1], self.epochs[-1].counts_on
        claims = [self.statements[epoch.statement]["claim"] for epoch in before]
        own, periods = described.guarantee, _periods(claims, [epoch.counts_on for epoch in before])
        mine = described.claim()
        if counts_on and claims and claims[-1] == mine:
            periods = periods[:-1]
        note = _note(mine, periods)
        return replace(own, limits=(note, *own.limits)) if note else own

    def manifest(self, sink: str) -> dict[str, Any]:
        """What readers of a sink are told. Nothing in it depends on rows that were not published: an epoch without
        parts is left out once it has ended.
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

    def _fewer(self, epochs: list[Epoch]) -> list[Epoch]:
        """The oldest two neighbours that promise the same and count together as one, if there are too many."""
        if len(epochs) <= _MOST:
            return epochs
        for at in range(1, len(epochs)):
            one, other = epochs[at - 1], epochs[at]
            claim = self.statements[other.statement]["claim"]
            adds_up = claim is not None and _of_persons(claim) and not other.counts_on
            if (one.statement, one.sink) == (other.statement, other.sink) and not adds_up:
                joined = replace(other, first=one.first, counts_on=one.counts_on)
                return [*epochs[: at - 1], joined, *epochs[at + 1 :]]
        return epochs

    def _forget_unused(self) -> None:
        used = {epoch.statement for epoch in self.epochs}
        self.statements = {name: each for name, each in self.statements.items() if name in used}


def sink_name(identity: dict[str, Any]) -> str:
    """What tells the sink of a job from another, from what identifies the job."""
    return _digest(identity.get("sink"))


def other_parts(manifest: dict[str, Any], described: Described) -> list[str]:
    """Parts in a folder that were published under something else than `described`, a sentence each."""
    found, mine = [], described.facts()
    for epoch in manifest["epochs"]:
        first, last = epoch["parts"]
        theirs = manifest["statements"][epoch["statement"]]
        differing = differences(mine, {name: theirs[name] for name in mine})
        if not theirs["policy"]:
            differing = ["version of castleguard, and an unknown policy"]
        if differing and last is not None:
            parts = f"part {first}" if first == last else f"parts {first} to {last}"
            found.append(f"{parts} published with another {' and another '.join(differing)}")
    return found


def _periods(claims: list[Any], counts_on: list[bool]) -> list[Any]:
    """Claims of epochs, once for those that follow one another with the same claim and the same counts."""
    found: list[Any] = []
    for at, claim in enumerate(claims):
        if not (at and counts_on[at] and claim == claims[at - 1]):
            found.append(claim)
    return found


def _note(mine: dict[str, Any] | None, periods: list[Any]) -> str:
    """What all epochs together promise to a person; nothing if that is what this one says by itself."""
    if mine is None or not _of_persons(mine) or not periods:
        return ""
    begin = (
        "Earlier epochs of this job (runs up to a finish or drain) had another claim, or counts of the rows of a "
        "person that this one does not continue"
    )
    if any(claim is None for claim in periods):
        return f"{begin}, and some of them made no such claim: all epochs together promise none."
    if not all(_adds_up(mine, claim) for claim in periods):
        return f"{begin}, and some of them claimed something else: all epochs together promise no bound for a person."
    everything = [mine, *periods]
    covered = [name for name in mine["covered"] if all(name in claim["covered"] for claim in periods)]
    epsilon = math.fsum(claim["epsilon"] for claim in everything)
    delta = min(math.fsum(claim["dp_delta"] for claim in everything), 1.0)
    if not covered or not epsilon < math.inf:
        return f"{begin}: all epochs together promise no bound for a person."
    return (
        f"{begin}. All epochs together promise, as the sum over epochs: ({rounded_up(epsilon)}, "
        f"{rounded_up(delta, 3)})-differential privacy of {mine['unit']}, {mine['neighbours']}, "
        f"over {mine['horizon']}, for {', '.join(covered)}."
    )


def _adds_up(mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether the loss over what `mine` speaks of, a window or the whole stream, is at most the sum of both."""
    if not _of_persons(theirs) or mine["neighbours"] != theirs["neighbours"]:
        return False
    own, other = mine["windows"], theirs["windows"]
    if own == other or other["window"] is None:
        return True
    sliding = not own["aligned"] and not other["aligned"] and own["unit"] == other["unit"]
    return sliding and own["window"] is not None and own["window"] <= other["window"]


def _of_persons(claim: dict[str, Any]) -> bool:
    return "person" in claim["unit"]


def _digest(described: object) -> str:
    text = json.dumps(described, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


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
