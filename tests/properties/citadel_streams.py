"""Random streams for Citadel, and its twin behind the interface of the engine.

Small streams make everything scarce: persons, company, rows of the same cell. Large ones fill several parts and blocks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.algorithms.citadel.policy import Citadel as Policy
from castleguard.schema.coded import NO_PERSON, CodedRows
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Schema
from castleguard.schema.sensitive import Sensitive
from tests.properties.choices import among
from tests.properties.streams import (
    KEYS,
    LARGE,
    WAITS,
    Key,
    Step,
    categories,
    coded_rows,
    in_cells,
    schemas,
    shapes,
    spread_hashes,
    step_lists,
    values_of,
)
from tests.properties.transcription import KINDS, NOTHING, Group, Outcome, attributes_of, rows_of, shape_of
from tests.reference.chacha import Draws
from tests.reference.citadel import Citadel, Release, Settings
from tests.reference.measure import Row

Flags = NDArray[np.bool_]

_VALUES = Hierarchy.from_mapping({"*": {"low": ["a", "b"], "high": ["c", "d", "e"]}})


@dataclass(frozen=True, eq=False)
class Stream:
    """All that an engine is given."""

    schema: Schema
    policy: Policy
    key: Key
    rows: CodedRows  # as the decoder hands them on: a number is the lower edge of its cell
    present: Flags  # (rows,) the others only move the clock
    steps: tuple[Step, ...]

    def with_values(self, sensitive: NDArray[np.int64]) -> "Stream":
        """The same stream with other sensitive values."""
        return replace(self, rows=self.rows._replace(sensitive=sensitive))


def apart(steps: Iterable[Step]) -> list[Step]:
    """The same rows at the same times, in calls that make at most one release each: ticks and single rows."""
    return [one for step in steps for one in [Step(0, step.now), *[Step(1, step.now)] * step.rows]]


# -- strategies --------------------------------------------------------------------------------------------------------


@st.composite
def citadel_streams(draw: st.DrawFn, *, reuse: str | None = None, judged: bool | None = None) -> Stream:
    """Any small stream; with this `reuse`, and with (or without) criteria for sensitive values."""
    asked = draw(among("nothing", "values", "values", "shape")) if judged is None else ""
    if judged is not None:
        asked = draw(among("values", "shape")) if judged else "nothing"
    if reuse == "narrow" and asked == "shape":
        asked = "values"
    schema = draw(schemas(strict=True, diverse=asked != "nothing"))
    if asked == "shape":
        names = draw(among(("s0",), ("s0",), ("s0", "s1")))
        sensitive = [Sensitive(name, hierarchy=draw(categories())) for name in names]
        schema = Schema(person="p", quasi_identifiers=schema.quasi_identifiers, sensitive=sensitive)
    policy = draw(policies(schema, asked=asked, reuse=reuse))
    rows = in_cells(schema, draw(coded_rows(schema, diverse=draw(st.booleans()))))
    count = rows.person.size
    absent = draw(among(0, 0, 0, 30, 150))  # of 256
    drawn = np.frombuffer(draw(st.binary(min_size=count, max_size=count)), dtype=np.uint8) if absent else None
    present = np.ones(count, dtype=np.bool_) if drawn is None else drawn >= absent
    return Stream(schema, policy, draw(KEYS), rows, present, tuple(draw(step_lists(count))))


@st.composite
def policies(draw: st.DrawFn, schema: Schema, *, asked: str, reuse: str | None) -> Policy:
    """Small parameters. `asked` of sensitive values: nothing, l distinct values, or something about their shape."""
    k = draw(st.integers(2, 5))
    delay = draw(_delays(k))
    given: dict[str, Any] = {}
    if asked == "values":
        given["l"] = min(k, draw(st.integers(2, 3)))
    if asked == "shape":
        given |= draw(shapes(schema, k))
        if "closeness" in given and given["closeness"].reference in ("window", "decay"):  # refused
            given["closeness"] = replace(given["closeness"], reference="cumulative", window=None, decay=None)
    if reuse is None:
        reuse = "off" if asked == "shape" else draw(among("off", "off", "narrow"))
    return Policy(
        k=k,
        delay=delay,
        max_wait=draw(WAITS),
        release_every=draw(_intervals(delay)),
        reuse=reuse,  # type: ignore[arg-type]
        slack=draw(among(0.0, 0.5, 1.0, 1.0, 4.0)),
        max_reusable=draw(among(1, 2, 4, 50)),
        suppression=draw(among("root", "root", "drop")),
        **given,
    )


@cache
def _delays(k: int) -> st.SearchStrategy[int]:
    return st.integers(max(k - 1, 1), 12) | st.integers(12, 110)


@cache
def _intervals(delay: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(1, delay)


@st.composite
def large_citadel_streams(draw: st.DrawFn) -> Stream:
    """Hundreds of rows that wait together, made by a seeded generator: they do not shrink.

    From k = 17 on, a group takes several rows at a time.
    """
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, k = int(random.integers(300, 500)), int(random.integers(2, 40))
    sensitive = [Sensitive("s0", hierarchy=_VALUES), Sensitive("s1", hierarchy=_VALUES)]
    schema = Schema(
        person="p",
        quasi_identifiers=LARGE[: random.integers(1, 5)],
        sensitive=sensitive[: random.integers(1, 3)],
    )
    asked = draw(among("nothing", "nothing", "values", "shape"))
    policy = draw(policies(schema, asked=asked, reuse=None))
    delay = int(random.integers(100, 300))
    every = None if random.random() < 0.5 else int(random.integers(1, delay))
    policy = replace(policy, k=max(k, policy.l), delay=delay, release_every=every)
    at_home = draw(st.booleans())  # a person has all rows in one place: candidates have to be looked for farther away
    person = random.integers(0, policy.k + 2 if at_home else random.choice([3 * policy.k, 10**6]), count)
    place = person if at_home else np.arange(count)
    rows = CodedRows(
        quasi=np.stack([random.choice(values_of(role), count)[place] for role in schema.quasi_identifiers], axis=1),
        person=np.where(random.random(count) < random.choice([0.0, 0.1]), NO_PERSON, spread_hashes(person)),
        sensitive=random.integers(0, random.integers(2, 7), (count, len(schema.sensitive))),
        to_root=random.random(count) < 0.01,
    )
    rows.quasi[rows.to_root] = 0.0  # as the decoder has it
    key = random.integers(0, 2**32, 8, dtype=np.uint32)
    everyone = np.ones(count, dtype=np.bool_)
    return Stream(schema, policy, key, in_cells(schema, rows), everyone, (Step(count, 0.0),))


# -- the twin ----------------------------------------------------------------------------------------------------------


class Transcription:
    """The twin, which takes steps as an engine does."""

    def __init__(self, stream: Stream) -> None:
        attributes = attributes_of(stream.schema, snap=True)
        settings = settings_of(stream.schema, stream.policy)
        self.citadel = Citadel(attributes, settings, Draws([int(word) for word in stream.key]))
        pairs = zip(rows_of(stream.rows), stream.present.tolist(), strict=True)
        self.rows: list[Row | None] = [row if present else None for row, present in pairs]
        self.taken = 0
        self.first = 0
        self.longest_wait = 0

    def begin_at(self, position: int) -> None:
        """Take the first row for the one at this position: so many rows have come and gone."""
        self.first = self.citadel.arrivals = position

    def step(self, step: Step) -> Outcome:
        rows = self.rows[self.taken : self.taken + step.rows]
        placed = [
            None if row is None else replace(row, position=self.first + self.taken + at) for at, row in enumerate(rows)
        ]
        self.taken += step.rows
        return self._outcome(self.citadel.push(placed, step.now))

    def end(self) -> Outcome:
        return self._outcome(self.citadel.flush())

    def _outcome(self, releases: Sequence[Release]) -> Outcome:
        waits = [release.arrivals - 1 - position for release in releases for position in release.order]
        self.longest_wait = max([self.longest_wait, *waits])
        return sum(map(outcome_of_release, releases), NOTHING)


def outcome_of_release(release: Release) -> Outcome:
    groups = [
        Group(release.arrivals, KINDS[group.kind], group.rows, group.box, group.loss, release.arrivals)
        for group in release.groups
    ]
    return Outcome(groups, release.order, release.dropped)


def settings_of(schema: Schema, policy: Policy) -> Settings:
    return Settings(
        k=policy.k,
        l=policy.l,
        delay=policy.delay,
        max_wait=policy.max_wait,
        release_every=policy.release_every,
        reuse=policy.reuse,
        slack=policy.slack,
        max_reusable=policy.max_reusable,
        suppression=policy.suppression,
        shape=shape_of(schema, policy),
    )
