"""Makes the tree of a hierarchy from the values of a column: prefixes, parts of dates, bins, or a table of parents."""

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from castleguard.errors import SchemaError
from castleguard.schema.hierarchy import label_text

ROOT = "*"
OTHER = "other"
DatePart = Literal["month", "quarter", "year", "decade"]

Ancestries = list[tuple[str, ...]]
"""Per leaf: its label and those above it, up to the root."""


def by_prefix(values: Iterable[str], lengths: Sequence[int] = ()) -> Ancestries:
    """Codes under their beginnings: postcodes, ICD. Without lengths, every length below that of the longest code.

    >>> by_prefix(["98101", "98115"], [3])
    [('98101', '981*', '*'), ('98115', '981*', '*')]
    """
    codes = sorted(set(values))
    if any(length < 1 for length in lengths):
        raise SchemaError("lengths of prefixes are whole numbers of at least 1")
    longest = max(map(len, codes), default=0)
    cuts = sorted(set(lengths) or set(range(1, longest)), reverse=True)
    return [(code, *(f"{code[:cut]}*" for cut in cuts if cut < len(code)), ROOT) for code in codes]


def by_date(values: Iterable[str], parts: Sequence[DatePart] = ("month", "year")) -> Ancestries:
    """ISO dates, or times, under their months, quarters, years or decades. Other values are under the root.

    >>> by_date(["1987-05-12"], ["month", "decade"])
    [('1987-05-12', '1987-05', '1980s', '*')]
    """
    order = [part for part in ("month", "quarter", "year", "decade") if part in parts]
    found: Ancestries = []
    for value in sorted(set(values)):
        day: dt.date | None = None
        with suppress(ValueError):
            day = dt.datetime.fromisoformat(value).date()
        above = [] if day is None else [_part_of(day, part) for part in order]
        found.append((value, *(label for label in above if label != value), ROOT))
    return found


def _part_of(day: dt.date, part: str) -> str:
    return {
        "month": f"{day.year}-{day.month:02}",
        "quarter": f"{day.year} Q{(day.month + 2) // 3}",
        "year": str(day.year),
        "decade": f"{day.year // 10}0s",
    }[part]


def by_bins(counts: Mapping[str, int], bins: int = 8) -> Ancestries:
    """Numbers under bins with about equally many rows, and bins under pairs of them. Other values are under the root.

    >>> by_bins({"1": 5, "2": 5, "7": 5, "9": 5}, 2)
    [('1', '1 to 2', '*'), ('2', '1 to 2', '*'), ('7', '7 to 9', '*'), ('9', '7 to 9', '*')]
    """
    if bins < 2:
        raise SchemaError("there must be at least 2 bins")
    numbers: dict[str, float] = {}
    for value in counts:
        with suppress(ValueError):
            number = float(value)
            if math.isfinite(number):
                numbers[value] = number
    order = sorted(numbers, key=lambda value: (numbers[value], value))
    total, before = sum(counts[value] for value in order), 0
    number_of: dict[str, int] = {}
    for value in order:
        number_of[value] = before * bins // max(total, 1)
        before += counts[value]
    levels: list[dict[str, str]] = []
    width = 1
    while width < bins:
        members: dict[int, list[str]] = {}
        for value in order:
            members.setdefault(number_of[value] // width, []).append(value)
        levels.append({value: f"{own[0]} to {own[-1]}" for own in members.values() for value in own if len(own) > 1})
        width *= 2
    found: Ancestries = []
    for value in order:
        above = dict.fromkeys(level[value] for level in levels if value in level)
        found.append((value, *above, ROOT))
    return found + [(value, ROOT) for value in sorted(set(counts) - set(numbers))]


def by_frequency(counts: Mapping[str, int], kept: int) -> Ancestries:
    """The most frequent values under the root, and all others under "other".

    >>> by_frequency({"Rome": 9, "Oslo": 1, "Bern": 2}, 1)
    [('Rome', '*'), ('Bern', 'other', '*'), ('Oslo', 'other', '*')]
    """
    order = sorted(counts, key=lambda value: (-counts[value], value))
    return [(value, ROOT) for value in order[:kept]] + [(value, OTHER, ROOT) for value in sorted(order[kept:])]


def by_table(values: Iterable[str], parents: Mapping[str, Sequence[str]]) -> tuple[Ancestries, list[str]]:
    """Values under what a table says is above them; and those that the table does not have, which are under "other".

    >>> by_table(["Rome", "Oslo"], {"Rome": ["Italy"]})
    ([('Rome', 'Italy', '*'), ('Oslo', 'other', '*')], ['Oslo'])
    """
    known: Ancestries = []
    unknown: list[str] = []
    for value in sorted(set(values)):
        if value in parents:
            above = [label_text(label) for label in parents[value]]
            known.append((value, *above, *([] if above and above[-1] == ROOT else [ROOT])))
        else:
            unknown.append(value)
    return [*known, *((value, OTHER, ROOT) for value in unknown)], unknown
