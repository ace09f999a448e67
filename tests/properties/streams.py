"""Random schemas, policies and streams, small enough that all cases occur: ties, merges, splits, evictions, the root.

Values come from small pools, one byte per value: Hypothesis draws and shrinks a stream as one piece of binary data.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any, Literal

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.algorithms.castle.policy import Castle, Reading
from castleguard.algorithms.policy import Mode
from castleguard.kernels.compile import COMPILED
from castleguard.privacy.closeness import Closeness
from castleguard.schema.cells import cell_starts
from castleguard.schema.coded import NO_PERSON, CodedRows
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

Key = NDArray[np.uint32]  # (8,)
_Kind = tuple[float, float, float] | Hierarchy | None  # a domain with its step, a hierarchy, or an observed domain
_Shape = list["_Shape"]  # a node's children; one without any is a leaf

MAX_ROWS = 120
_MODES: tuple[Mode, ...] = ("paper", "strict")
_SENSITIVE = ((), ("s0",), ("s0", "s1"), ("s0", "s1"))
_ROW = 8  # bytes: whether to the root, person, four quasi-identifiers, two sensitive values
LARGE = (
    Numeric("q0", lower=0, upper=100, step=5),
    Categorical(
        "q1", hierarchy=Hierarchy.from_mapping({"*": {"a": [1, 2, 3], "b": {"c": [4, 5], "d": [6]}, "e": [7]}})
    ),
    Numeric("q2", lower=0, upper=3, step=1),
    Numeric("q3", lower=0.0, upper=1.0),
)
_HASH = 0x9E3779B97F4A7C15
KEYS = st.tuples(*[st.integers(0, 2**32 - 1)] * 2).map(lambda words: np.array(words * 4, dtype=np.uint32))
WAITS = st.none() | st.none() | st.integers(1, 30)  # max_wait, in seconds


def examples(times: int) -> settings:
    """`times` the examples of the profile, for quick tests; a quarter of that without the compiler."""
    profile = settings.default
    assert profile is not None
    return settings(
        max_examples=profile.max_examples * (times if COMPILED else max(1, times // 4)),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@dataclass(frozen=True)
class Step:
    """One call: `rows` rows arrive at `now` seconds; a tick if there are none."""

    rows: int
    now: float


@dataclass(frozen=True, eq=False)
class Stream:
    """All input of an engine."""

    schema: Schema
    policy: Castle
    key: Key
    rows: CodedRows
    """Raw values; the transcription maps them to cells itself."""
    steps: tuple[Step, ...]

    @property
    def engine_rows(self) -> CodedRows:
        """Rows as decoded: in strict mode a number is the lower edge of its cell."""
        return in_cells(self.schema, self.rows) if self.policy.strict else self.rows


def in_cells(schema: Schema, rows: CodedRows) -> CodedRows:
    """Numbers as the lower edges of their cells."""
    quasi = rows.quasi.copy()
    for at, role in enumerate(schema.quasi_identifiers):
        if isinstance(role, Numeric):
            quasi[:, at] = np.where(rows.to_root, 0.0, cell_starts(role.edges, quasi[:, at]))
    return rows._replace(quasi=quasi)


def one_by_one(steps: Sequence[Step]) -> list[Step]:
    """The same rows at the same times, one per call."""
    return [one for step in steps for one in [Step(min(step.rows, 1), step.now)] * max(step.rows, 1)]


def joined(steps: Sequence[Step]) -> list[Step]:
    """The same rows at the same times in as few calls as possible."""
    return [Step(sum(step.rows for step in group), now) for now, group in groupby(steps, key=lambda step: step.now)]


@st.composite
def streams(
    draw: st.DrawFn, *, mode: Mode | None = None, reading: Literal["own", "any"] = "own", diverse: bool = False
) -> Stream:
    """A stream for `mode` (None: either), with that mode's own reading of the paper or with any.

    With `diverse`, l is at least 2 and clusters grow large enough to be split.
    """
    chosen = draw(st.sampled_from(_MODES)) if mode is None else mode
    schema = draw(schemas(strict=chosen == "strict", diverse=diverse))
    policy = draw(policies(schema, mode=chosen, reading=reading, diverse=diverse))
    lopsided = policy.l_per == "person" and draw(st.booleans())
    rows = draw(coded_rows(schema, lopsided=lopsided, diverse=diverse))
    key = np.array(draw(st.tuples(*[st.integers(0, 2**32 - 1)] * 2)) * 4, dtype=np.uint32)
    return Stream(schema, policy, key, rows, tuple(draw(step_lists(len(rows.person)))))


@st.composite
def shaped_streams(draw: st.DrawFn, *, mode: Mode | None = None, reading: Literal["own", "any"] = "own") -> Stream:
    """Streams whose policy has a criterion on the distribution of sensitive values."""
    chosen = draw(st.sampled_from(_MODES)) if mode is None else mode
    bare = draw(schemas(strict=chosen == "strict"))
    names = draw(st.sampled_from((("s0",), ("s0",), ("s0", "s1"))))
    schema = Schema(
        person="p",
        quasi_identifiers=bare.quasi_identifiers,
        sensitive=[Sensitive(name, hierarchy=draw(categories())) for name in names],
    )
    policy = draw(policies(schema, mode=chosen, reading=reading))
    policy = replace(policy, **draw(shapes(schema, policy.k)))
    rows = draw(coded_rows(schema, diverse=True))
    key = np.array(draw(st.tuples(*[st.integers(0, 2**32 - 1)] * 2)) * 4, dtype=np.uint32)
    return Stream(schema, policy, key, rows, tuple(draw(step_lists(len(rows.person)))))


@st.composite
def shapes(draw: st.DrawFn, schema: Schema, k: int) -> dict[str, Any]:
    """Parameters of a criterion on the distribution of sensitive values."""
    diversity = draw(st.sampled_from(("distinct", "distinct", "entropy", "recursive")))
    described: dict[str, Any] = {"diversity": diversity}
    if diversity != "distinct":
        described["l"] = min(k, draw(st.integers(2, 3)))
    if diversity == "recursive":
        described["c"] = draw(st.sampled_from((0.7, 1, 1.5, 2.0, 4.0)))
    if diversity == "distinct" or draw(st.booleans()):
        described["closeness"] = draw(closenesses(schema))
    return described


@st.composite
def closenesses(draw: st.DrawFn, schema: Schema) -> Closeness:
    """Any distance and reference; bounds from unreachable to easy."""
    reference = draw(st.sampled_from(("cumulative", "cumulative", "window", "decay", "public")))
    given: dict[str, Any] = {"reference": reference}
    if reference == "window":
        given["window"] = draw(st.sampled_from((1, 2, 7, 20, 500)))
    if reference == "decay":
        given["decay"] = draw(st.sampled_from((0.001, 0.5, 0.9, 0.99)))
    if reference == "public":
        given["public"] = {
            role.name: _public(role, draw(st.binary(min_size=9, max_size=9))) for role in schema.sensitive
        }
    return Closeness(
        t=draw(st.sampled_from((0.05, 0.1, 0.2, 0.3, 0.3, 0.5, 0.5, 0.8))),
        distance=draw(st.sampled_from(("equal", "ordered", "hierarchical"))),
        burn_in=draw(st.sampled_from((None, 0, 5, 25))),
        alpha=draw(st.sampled_from((0.01, 1.0, 1.0, 5.0))),
        **given,
    )


def _public(role: Sensitive, weights: bytes) -> dict[str | int | None, float]:
    labels = [*(role.labels or ()), None]
    parts = [1 + weight for weight in weights[: len(labels)]]
    return {label: part / sum(parts) for label, part in zip(labels, parts, strict=True)}


@st.composite
def large_streams(draw: st.DrawFn) -> Stream:
    """Hundreds of rows in large clusters, from a seeded generator: they do not shrink."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, k = int(random.integers(300, 600)), int(random.integers(5, 20))
    schema = Schema(person="p", quasi_identifiers=LARGE[: random.integers(1, 5)], sensitive=["s0", "s1"])
    policy = Castle(
        k=k,
        l=draw(st.integers(1, 3)),
        delay=int(random.integers(4 * k, 250)),
        max_clusters=int(random.integers(1, 30)),
        loss_window=int(random.integers(1, 50)),
        max_reusable=int(random.integers(1, 50)),
        mode=draw(st.sampled_from(_MODES)),
        l_per=draw(st.sampled_from(("row", "person"))),
        reading=draw(readings()),
    )
    named = spread_hashes(random.integers(0, random.choice([20, 60, 10**6]), count))
    rows = CodedRows(
        quasi=np.stack([random.choice(values_of(role), count) for role in schema.quasi_identifiers], axis=1),
        person=np.where(random.random(count) < random.choice([0.0, 0.1]), NO_PERSON, named),
        sensitive=random.poisson(1, (count, 2)),
        to_root=random.random(count) < 0.01,
    )
    rows.quasi[rows.to_root] = 0.0  # as the decoder has it
    return Stream(schema, policy, random.integers(0, 2**32, 8, dtype=np.uint32), rows, (Step(count, 0.0),))


# -- schemas -----------------------------------------------------------------------------------------------------------


@st.composite
def schemas(draw: st.DrawFn, *, strict: bool, diverse: bool = False) -> Schema:
    """One to four quasi-identifiers, none to two sensitive columns; observed domains unless `strict`."""
    chosen = draw(_kind_lists(strict))
    roles = [_role(f"q{number}", kind) for number, kind in enumerate(chosen)]
    return Schema(person="p", quasi_identifiers=roles, sensitive=draw(st.sampled_from(_SENSITIVE[diverse:])))


@cache
def _kind_lists(strict: bool) -> st.SearchStrategy[list[_Kind]]:
    kinds: list[st.SearchStrategy[_Kind]] = [domain_numbers(), categories()]
    return st.lists(st.one_of(kinds if strict else [*kinds, st.none()]), min_size=1, max_size=4)


def _role(name: str, kind: _Kind) -> QuasiIdentifier:
    if kind is None:
        return Numeric(name)
    if isinstance(kind, Hierarchy):
        return Categorical(name, hierarchy=kind)
    lower, upper, step = kind
    return Numeric(name, lower=lower, upper=upper, step=step)


def domain_numbers() -> st.SearchStrategy[tuple[float, float, float]]:
    """(lower, upper, step): few whole numbers to provoke ties, decimals, and numbers as large as timestamps."""
    whole = (0, 1, 1), (0, 6, 1), (0, 6, 4), (-3, 9, 5), (0, 20, 4), (10**12, 10**12 + 900, 60)
    decimal = (0.0, 1.0, 0.1), (-2.5, 2.5, 0.7)
    return st.sampled_from(whole + decimal)


@cache
def categories() -> st.SearchStrategy[Hierarchy]:
    """Uneven trees of up to eight leaves, with chains of only children."""
    leaf: st.SearchStrategy[_Shape] = st.just([])
    shapes = st.recursive(leaf, lambda below: st.lists(below, min_size=1, max_size=3), max_leaves=8)
    return shapes.map(lambda shape: Hierarchy.from_mapping({"0": _labelled(shape or [[]], "0")}))


def _labelled(shape: _Shape, prefix: str) -> dict[str, object]:
    """A nested mapping of unique labels."""
    below = {f"{prefix}.{i}": child for i, child in enumerate(shape)}
    return {label: _labelled(child, label) if child else None for label, child in below.items()}


# -- policies ----------------------------------------------------------------------------------------------------------


@st.composite
def policies(
    draw: st.DrawFn, schema: Schema, *, mode: Mode, reading: Literal["own", "any"] = "own", diverse: bool = False
) -> Castle:
    """Small parameters, so all limits are reached."""
    k = draw(st.integers(2, 4 if diverse else 6))
    return Castle(
        k=k,
        l=min(k, draw(st.integers(1 + diverse, 3))) if schema.sensitive else 1,
        delay=draw(st.integers(6 * k if diverse else k - 1, 40)),
        max_wait=draw(st.none() | st.none() | st.integers(1, 30)),
        max_clusters=draw(st.integers(1, 3 if diverse else 6)),
        loss_window=draw(st.integers(1, 5)),
        max_reusable=draw(st.integers(1, 4)),
        reusable_age=draw(st.none() | st.none() | st.integers(0, 40)),
        mode=mode,
        reuse=draw(st.sampled_from(("paper", "paper", "paper", "off"))),
        suppression=draw(st.sampled_from((None, "root", "drop") + (("generalise",) if mode == "paper" else ()))),
        order=draw(st.sampled_from((None, "arrival", "shuffled"))),
        l_per=draw(st.sampled_from(("row", "person"))),
        reading=None if reading == "own" else draw(readings()),
    )


@cache
def readings() -> st.SearchStrategy[Reading]:
    """Any combination of readings."""
    return st.builds(
        Reading,
        tie_break=st.sampled_from(("oldest", "random")),
        containment=st.sampled_from(("generalisation", "interval")),
        admission=st.sampled_from(("le", "lt")),
        representatives=st.sampled_from(("balanced", "random")),
        merge=st.sampled_from(("diversity_aware", "paper")),
        first_threshold=st.sampled_from((0.0, 0.1, 0.3, 1.0)),
    )


# -- rows --------------------------------------------------------------------------------------------------------------


@st.composite
def coded_rows(
    draw: st.DrawFn, schema: Schema, *, lopsided: bool = False, diverse: bool = False, named: bool = False
) -> CodedRows:
    """Up to MAX_ROWS rows inside their domains; persons come back, some rows are root-only.

    If `lopsided`, one person has many rows, and of the last sensitive column nearly all values but one: where l counts
    persons, that matters. If `named`, every row has a person.
    """
    count = draw(st.integers(draw(st.sampled_from((0, 40, 80))), MAX_ROWS))
    persons = draw(st.sampled_from((6, 10, 15, 40, 256) if diverse else (1, 3, 6, 10, 15, 40, 256)))
    nameless = 0 if named else draw(st.sampled_from((0, 0, 0, 1, 3)))  # number of persons that are NO_PERSON
    spread = [draw(st.integers(1 + diverse, 4)) for _ in schema.sensitive]
    rooted = draw(st.sampled_from((0, 0, 10, 60) if diverse else (0, 0, 10, 40, 256)))
    drawn = draw(st.binary(min_size=_ROW * count, max_size=_ROW * count))
    data = iter(np.frombuffer(drawn, dtype=np.uint8).astype(np.int64).reshape(count, _ROW).T)
    to_root = next(data) >= 256 - rooted
    person = np.maximum(next(data) - (100 if lopsided else 0), 0) % persons
    quasi = np.zeros((count, len(schema.quasi_identifiers)))
    for column, role in enumerate(schema.quasi_identifiers):
        pool = values_of(role)
        quasi[:, column] = np.where(to_root, 0.0, pool[next(data) % pool.size])
    sensitive = np.zeros((count, len(schema.sensitive)), dtype=np.int64)
    for column, values in enumerate(spread):
        byte = next(data)
        talks = (person == 0) | (byte >= 200) if lopsided and column == len(spread) - 1 else True
        # Hashes may be any number. For declared values, some codes are valid and some are not.
        sensitive[:, column] = np.where(talks, byte % values, 0) - (schema.sensitive[column].labels is None)
    hashes = spread_hashes(person)
    return CodedRows(quasi, np.where(person < persons - nameless, hashes, NO_PERSON), sensitive, to_root)


def spread_hashes(person: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Small numbers spread over 64 bits, as hashes are."""
    return person.astype(np.uint64) * np.uint64(_HASH)


def values_of(role: QuasiIdentifier) -> NDArray[np.float64]:
    """Coded values to choose from, at least a billionth of the domain apart, so that rounding decides nothing."""
    if isinstance(role, Categorical):
        return np.arange(len(role.hierarchy.leaves), dtype=np.float64)
    lower, upper = role.domain or (-4.0, 12.0)
    if upper - lower <= 20 and lower.is_integer() and role.domain:
        return np.arange(lower, upper + 1)
    return np.concatenate([np.linspace(lower, upper, 17), lower + (upper - lower) * np.array([0.1, 0.3, 1 / 3, 0.7])])


@st.composite
def step_lists(draw: st.DrawFn, rows: int) -> list[Step]:
    """Calls with `rows` rows in total: at once, one by one, or in random batches, with waits and ticks between."""
    feeding = draw(st.sampled_from(("at once", "one by one", "mixed", "mixed")))
    if feeding == "at once":
        return [Step(rows, 0.0)]
    steps: list[Step] = []
    now, left = 0.0, rows
    for byte in draw(st.binary(min_size=rows, max_size=rows)):
        now += max(0, byte // 64 - 1)  # 0, 0, 1 or 2 seconds
        steps.append(Step(1 if feeding == "one by one" else min(byte % 8, left), now))
        left -= steps[-1].rows
    return [*steps, Step(left, now)]
