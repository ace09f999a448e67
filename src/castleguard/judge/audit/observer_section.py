"""Audit section on an observer of arrival times: what releases disclose to someone who knows when rows arrived."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from castleguard.judge.attack.observer import (
    UNKNOWN,
    CellValues,
    InCells,
    Releases,
    WorkedOut,
    look_into_cells,
    work_out,
)
from castleguard.judge.audit.material import Material
from castleguard.judge.publishing import publish_timed, quiet
from castleguard.judge.reading.boxes import read_boxes
from castleguard.judge.reading.values import Codes, numbers_of
from castleguard.judge.report.findings import Finding, Section, Status, finding
from castleguard.judge.verify.group_values import value_codes

_DELAYS = 4  # minimum length of the stream; a shorter one would mostly consist of its final flush
_STEPS = 8  # pushes per delay

_PERSONS = "Does every row have k candidates in its release?"
_SHARES = "Does one person dominate a group of a release?"
_VALUES = "Does a release disclose sensitive values?"
_KEPT = "Do several releases disclose a constant value?"
_CANDIDATES = "How many candidates does a row have without the link?"
_LEARNT = "Which values are certain without the link?"
_ORDER = "Does the order of rows reveal their arrival?"
_COLUMNS = "Does a column reveal when a row arrived?"
_PROMISED = "The policy promises otherwise for every release."
_NOT_PROMISED = "The policy makes no promise about single releases here."


@dataclass(frozen=True, eq=False)
class Observed:
    """Original rows published again, and the observer's view of them."""

    rows: int
    """Number of original rows published again."""
    releases: Releases
    cells: InCells
    worked_out: WorkedOut

    @property
    def persons_per_cell(self) -> Codes:
        """Persons per box and release."""
        _, first = np.unique(self.releases.cell, return_index=True)
        return self.cells.persons[first]


def observe(material: Material) -> Observed | str:
    """Publish the original rows again and run the attack; or return the reason why it does not apply."""
    why_not = _why_not(material)
    if why_not is not None:
        return why_not
    delay = material.promised.delay
    rows = material.original.slice(0, max(material.observed_rows, _DELAYS * (delay or 0)))
    step = max((delay or rows.num_rows) // _STEPS, 1)
    with quiet():
        timed = publish_timed(material.schema, material.policy, rows, seed=material.seed, step=step)
    if not timed.row.size:
        return "Nothing was published."
    place = np.full(rows.num_rows, -1, dtype=np.int64)
    place[timed.accepted] = np.arange(timed.accepted.size)
    due_known = material.promised.due_rows and delay is not None
    turn = np.where(timed.at_end | (not due_known), UNKNOWN, timed.arrived - 1 - (delay or 0))
    seen = Releases(
        sides=read_boxes(timed.published, material.schema, closed=material.promised.closed),
        values=tuple(value_codes(timed.published.column(role.name), role) for role in material.schema.sensitive),
        release=timed.release,
        arrived=timed.arrived,
        turn=turn,
        originals=material.originals.take(timed.accepted),
        row=place[timed.row],
    )
    return Observed(rows.num_rows, seen, look_into_cells(seen), work_out(seen, delay))


def observer_section(material: Material, seen: Observed | str) -> Section:
    """Section on the observer of arrival times."""
    return Section(
        id="observer",
        title="What does an observer who knows arrival times learn?",
        about="This observer knows when every row arrived, all quasi-identifiers, the algorithm, and every release "
        "with its time, but neither the random draws nor the sensitive values. For this observer, a row hides only "
        "among the rows of its box in its own release. A file does not show releases, so the original rows are "
        "published again with other random draws. With the link, the observer knows the box and release of every row; "
        "without it, the observer infers which rows can be in which box.",
        findings=tuple(_findings(material, seen)),
    )


def _why_not(material: Material) -> str | None:
    if material.kind == "points":
        return "Published numbers are noisy means, which do not correspond to rows."
    if material.kind == "noisy boxes":
        return (
            "Ranges hold randomised values, so true values do not show which rows lie in a box. Use audit dp to judge "
            "what the noise hides."
        )
    if material.promised.form != "boxes":
        return "Rows are left out at random, and which ones is hidden. Use audit dp to judge what this hides."
    if not material.promised.alone:
        return "Several sites publish together, and a single stream says nothing about their release."
    if not material.observed_rows:
        return "The number of observed rows is 0."
    return None


def _findings(material: Material, seen: Observed | str) -> Iterator[Finding]:
    if isinstance(seen, str):
        yield finding("observer-persons", _PERSONS, "not checked", seen)
        yield finding("observer-candidates", _CANDIDATES, "not checked", seen)
        return
    k = material.policy.k or 1
    yield _persons(material, seen, k)
    yield _shares(material, seen, k)
    for role, values in zip(material.schema.sensitive, seen.cells.values, strict=True):
        yield _values(material, role.name, values)
    for role, values in zip(material.schema.sensitive, seen.cells.values, strict=True):
        yield _kept(role.name, values)
    yield _candidates(seen.worked_out, k)
    for role, learnt in zip(material.schema.sensitive, seen.worked_out.learnt, strict=True):
        yield _learnt(role.name, int(np.count_nonzero(learnt)), learnt.size)
    yield from _order(material)
    yield from _columns(material)


def _persons(material: Material, seen: Observed, k: int) -> Finding:
    persons, releases = seen.cells.persons, seen.releases
    below, promised = float(np.mean(persons < k)), material.promised.each_release != "nothing"
    played = f"{seen.rows:,} rows" if seen.rows == material.original.num_rows else f"The first {seen.rows:,} rows"
    text = f"{played} were published again, in {releases.arrived.size:,} releases. "
    if below:
        text += (
            f"{_percent(below)} of the published rows have fewer than {k} persons in their box and release; the "
            f"minimum is {int(persons.min())}. {_PROMISED if promised else _NOT_PROMISED}"
        )
    else:
        text += f"Every row has at least {int(persons.min())} persons in its box and release."
    return finding(
        "observer-persons", _PERSONS, _status(below > 0, promised), text,
        rows=seen.rows, published=int(persons.size), releases=int(releases.arrived.size),
        cells=int(releases.rows_per_cell.size), asked=k, fewest=int(persons.min()), below=below,
    )  # fmt: skip


def _shares(material: Material, seen: Observed, k: int) -> Finding:
    share = seen.cells.share
    above, promised = float(np.mean(share * k > 1 + 1e-9)), material.promised.each_release == "shares"
    text = f"One person has up to {_percent(float(share.max()))} of the rows of a box in a release"
    if above:
        text += (
            f". For {_percent(above)} of the published rows, one person has more than 1/{k} of the rows of their box "
            f"and release. {_PROMISED if promised else _NOT_PROMISED}"
        )
    else:
        text += f", which is at most 1/{k}."
    status = _status(above > 0, promised)
    return finding("observer-shares", _SHARES, status, text, asked=1 / k, highest=float(share.max()), above=above)


def _values(material: Material, column: str, values: CellValues) -> Finding:
    certain, guess = float(np.mean(values.certain)), float(np.mean(values.top))
    criteria = material.criteria
    promised = material.promised.each_release != "nothing" and criteria is not None and criteria.l > 1
    text = f"{column}: guessing the most frequent value of a box in a release is right for {_percent(guess)} of rows. "
    if certain:
        text += f"For {_percent(certain)} of rows, the value is certain: their box has no other value in their release."
        text += " The policy promises several values in every release." if promised else ""
    else:
        text += "No row has a certain value."
    return finding(
        "observer-values", _VALUES, _status(certain > 0, promised), text,
        column=column, certain=certain, guess=guess, highest=float(values.top.max()),
    )  # fmt: skip


def _kept(column: str, values: CellValues) -> Finding:
    if not values.kept:
        text = f"{column}: no person has several rows that all have the same value."
    else:
        text = (
            f"{column}: persons with several rows that all have the same value: {values.kept:,}. For {values.pinned:,} "
            f"of them, their boxes and releases have no other value in common, so an observer who knows that the value "
            f"is constant learns it. k-anonymity makes no promise about this."
        )
    status: Status = "warning" if values.pinned else "passed"
    return finding("observer-kept", _KEPT, status, text, column=column, kept=values.kept, pinned=values.pinned)


def _candidates(found: WorkedOut, k: int) -> Finding:
    solved, below = float(np.mean(found.solved)), float(np.mean(found.persons < k))
    middle = int(np.percentile(found.candidates, 50, method="lower"))
    text = (
        f"The minimum number of candidates of a published row is {int(found.candidates.min()):,}, the median "
        f"{middle:,}. For {_percent(below)} of rows, the candidates are fewer than {k} persons. {_percent(solved)} of "
        f"rows lie in a box that has as many candidates as rows in its release, so it is known which rows are in it."
    )
    return finding(
        "observer-candidates", _CANDIDATES, "warning" if below else "passed", text,
        asked=k, least=int(found.candidates.min()), median=middle, fewest=int(found.persons.min()), below=below,
        solved=solved,
    )  # fmt: skip


def _learnt(column: str, rows: int, of: int) -> Finding:
    share = rows / of
    text = (
        f"{column}: the value of {_percent(share)} of rows is certain." if rows else f"{column}: no value is certain."
    )
    return finding("observer-learnt", _LEARNT, "warning" if rows else "passed", text, column=column, learnt=share)


def _order(material: Material) -> Iterator[Finding]:
    order = material.policy.chosen_order
    if order != "shuffled":
        text = (
            f"Rows are published in the order {order!r}, which keeps the rows of a release in arrival order, so this "
            f"observer can match them. The other findings assume shuffled rows."
        )
        yield finding("observer-order", _ORDER, "warning", text, order=order)


def _columns(material: Material) -> Iterator[Finding]:
    """Warn of columns that reveal arrivals. Column names are not values and may be shown."""
    public = [name for name in material.schema.public if name != material.link]
    timed = [role.name for role in material.schema.sensitive if _reveals_arrival(material.original.column(role.name))]
    if public or timed:
        text = (
            f"These columns are published unchanged and can distinguish the rows of a release: "
            f"{', '.join([*public, *timed])}. The other findings assume that they do not."
        )
        yield finding("observer-columns", _COLUMNS, "warning", text, public=len(public), moments=len(timed))


def _reveals_arrival(column: pa.ChunkedArray) -> bool:
    """Whether all values of a column are timestamps, or numbers that never decrease."""
    moments, missing = numbers_of(column, "timestamp")
    if (~missing).any() and not np.isnan(moments[~missing]).any():
        return True
    numbers, missing = numbers_of(column, "number")
    known = numbers[~missing]
    return bool(known.size > 1 and (np.diff(known) >= 0).all() and known[0] < known[-1])


def _status(broken: bool, promised: bool) -> Status:
    if not broken:
        return "passed"
    return "failed" if promised else "warning"


def _percent(share: float) -> str:
    """Format a share as a percentage; a share above 0 is never shown as 0."""
    if 0 < share < 0.0001:
        return "less than 0.01 %"
    return f"{100 * share:.2f} %" if share < 0.1 else f"{100 * share:.0f} %"
