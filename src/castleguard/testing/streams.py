"""A synthetic stream with realistic properties: hospital visits of one region in one year.

Patients have several visits, a few of them very many; arrivals follow a daily rhythm; distributions drift (patients
come and go, waiting times grow, diagnoses have seasons); one visit in a hundred is an outlier. No patient is real.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.config.schema_file import load_schema
from castleguard.schema.roles import Categorical, Schema

START = np.datetime64("2026-01-01T00:00:00", "us")
DAYS = 365
BLOCK_ROWS = 8192  # rows drawn together; changing it changes the rows of every seed
OUTLIERS = 0.01
TURNOVER = 0.25  # share of patients replaced by new ones during the year
CLINICS = ("St. Anne", "Riverside", "University", "Coast")
DIAGNOSES = (
    "check-up",
    "back pain",
    "hypertension",
    "diabetes",
    "influenza",
    "sprain",
    "asthma",
    "migraine",
    "depression",
    "pregnancy",
    "arrhythmia",
    "hay fever",
    "fracture",
    "gastritis",
    "anaemia",
    "arthritis",
    "bronchitis",
    "eczema",
    "kidney stones",
    "stroke",
    "epilepsy",
    "cancer",
    "HIV",
    "addiction",
)
WINTER = tuple(DIAGNOSES.index(name) for name in ("influenza", "bronchitis"))
SUMMER = tuple(DIAGNOSES.index(name) for name in ("hay fever", "sprain"))
HOURS = np.array([2, 1, 1, 1, 1, 2, 5, 12, 20, 22, 21, 18, 13, 14, 17, 18, 16, 12, 9, 7, 6, 5, 4, 3], dtype=np.float64)
"""Arrivals by hour of the day."""


@cache
def visits_schema() -> Schema:
    """Return the schema of `visits`."""
    with as_file(files("castleguard.testing") / "visits.yaml") as path:
        return load_schema(path)


def visits_schema_text() -> str:
    """Return the schema of `visits` as YAML."""
    return (files("castleguard.testing") / "visits.yaml").read_text(encoding="utf-8")


def visits(
    rows: int, *, persons: int | None = None, seed: int = 0, batch_rows: int = 1000, flaws: float = 0.0
) -> Iterator[pa.Table]:
    """Yield `rows` visits of about `persons` patients (default: one per five visits), in order of arrival.

    The same seed gives the same rows for every `batch_rows`. `flaws`: the share of rows with a missing age or an
    unknown district.
    """
    population = _populate(max(persons or rows // 5, 1), seed)
    blocks = (_block(population, start, rows, seed, flaws) for start in range(0, rows, BLOCK_ROWS))
    return _rebatch(blocks, batch_rows)


@dataclass(frozen=True)
class _Population:
    """All patients: the `active` ones of the first day, then the successor of each."""

    active: int
    leaves_at: NDArray[np.float64]
    """When each initial patient is replaced, in years; for most of them after the end of the year."""
    names: pa.Array
    ages: NDArray[np.int64]
    distances: NDArray[np.float64]
    districts: NDArray[np.int64]
    occupations: NDArray[np.int64]
    chronic: NDArray[np.int64]
    """The chronic diagnosis of each patient."""


def _populate(active: int, seed: int) -> _Population:
    draw = np.random.default_rng([seed, 0])
    size = 2 * active
    late = np.arange(size) >= active  # successors are older and live nearer to the coast
    ages = (draw.gamma(2.4, 14.0 + 6.0 * late) + draw.choice([0, 20], size)).astype(np.int64)
    ages = np.where(ages > 99, ages % 100, ages)
    leaves = len(_leaves("district"))
    skewed = draw.random(size) ** (1.6 - 0.9 * late)
    districts = np.minimum((skewed * leaves).astype(np.int64), leaves - 1)
    distances = draw.gamma(2.0, 1.5 + 1.2 * districts / leaves * 8.0)
    return _Population(
        active=active,
        leaves_at=draw.random(active) / TURNOVER,
        names=pa.array([f"P{number:07d}" for number in draw.permutation(size)]),
        ages=ages,
        distances=distances,
        districts=districts,
        occupations=_occupations(ages, draw),
        chronic=_skewed(draw, len(DIAGNOSES), size),
    )


def _occupations(ages: NDArray[np.int64], draw: np.random.Generator) -> NDArray[np.int64]:
    """Draw occupations that fit the ages."""
    leaves = list(_leaves("occupation"))
    adult = [leaves.index(name) for name in leaves if name not in ("Infant", "Pupil", "Student", "Retired")]
    chosen = np.array(adult)[_skewed(draw, len(adult), ages.size)]
    chosen[(ages < 25) & (draw.random(ages.size) < 0.5)] = leaves.index("Student")
    chosen[ages > 66] = leaves.index("Retired")
    chosen[ages < 18] = leaves.index("Pupil")
    chosen[ages < 6] = leaves.index("Infant")
    return chosen


def _block(people: _Population, start: int, rows: int, seed: int, flaws: float) -> pa.Table:
    """Draw one block of visits, from number `start` on."""
    draw = np.random.default_rng([seed, 1, start // BLOCK_ROWS])
    count = min(BLOCK_ROWS, rows - start)
    u = draw.random((12, BLOCK_ROWS))[:, :count]
    number = start + np.arange(count)
    year = (number + u[0]) / rows  # elapsed fraction of the year
    place = _zipf(u[1], people.active)
    person = np.where(year < people.leaves_at[place], place, place + people.active)
    outlier = u[2] < OUTLIERS
    distance = np.where(outlier, 60 + 135 * u[3], np.clip(people.distances[person] * (0.8 + 0.4 * u[3]), 0, 200))
    usual = (12 + 25 * -np.log1p(-u[4])) * (1.0 + 0.3 * year) + people.ages[person] / 5
    minutes = np.where(outlier, 240 + 470 * u[5], np.clip(usual, 1, 720)).astype(np.int64)
    age = np.where(outlier, (109 * u[6]).astype(np.int64), people.ages[person])
    flawed = u[10] < flaws
    district = pc.if_else(
        pa.array(flawed & (u[11] >= 0.5)), "Elsewhere", _labels(_leaves("district"), people.districts[person])
    )
    return pa.table(
        {
            "record": number + 1,
            "patient": people.names.take(pa.array(person)),
            "arrived": _arrivals(year),
            "age": pa.array(age, mask=flawed & (u[11] < 0.5)),
            "distance_km": np.round(distance, 1),
            "minutes": minutes,
            "district": district,
            "occupation": _labels(_leaves("occupation"), people.occupations[person]),
            "diagnosis": _labels(DIAGNOSES, _diagnoses(people.chronic[person], year, u[7:9])),
            "clinic": _labels(CLINICS, (u[9] ** 1.5 * len(CLINICS)).astype(np.int64)),
        }
    )


def _arrivals(year: NDArray[np.float64]) -> NDArray[np.datetime64]:
    """Map fractions of the year to ordered timestamps that follow the daily rhythm."""
    day, share = np.divmod(year * DAYS, 1.0)
    passed = np.concatenate([[0.0], np.cumsum(HOURS) / HOURS.sum()])
    seconds = day * 86_400 + np.interp(share, passed, np.arange(25) * 3600.0)
    moments: NDArray[np.datetime64] = START + seconds.astype(np.int64) * np.timedelta64(1_000_000, "us")
    return moments


def _diagnoses(chronic: NDArray[np.int64], year: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw diagnoses: half of them chronic, the others common or seasonal."""
    found = np.where(u[0] < 0.5, chronic, (u[1] ** 2.5 * len(DIAGNOSES)).astype(np.int64))
    winter = 0.25 * np.maximum(np.cos(2 * np.pi * year), 0)
    summer = 0.20 * np.maximum(-np.cos(2 * np.pi * year), 0)
    pick = (u[1] * 2).astype(np.int64)
    found = np.where(u[0] > 1 - winter, np.array(WINTER)[pick], found)
    return np.where(u[0] > 1 - summer, np.array(SUMMER)[pick], found)


def _zipf(u: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Ranks from 0 with probability proportional to 1 / (rank + count/50): no patient dominates the stream."""
    offset = count / 50
    ranks = offset * ((count + offset) / offset) ** u - offset
    return np.clip(ranks.astype(np.int64), 0, count - 1)


def _skewed(draw: np.random.Generator, choices: int, size: int) -> NDArray[np.int64]:
    """Draw numbers below `choices`, small ones more often."""
    return (draw.random(size) ** 1.4 * choices).astype(np.int64)


def _leaves(column: str) -> tuple[str, ...]:
    """Return the leaves of a column's hierarchy."""
    roles = {role.name: role for role in visits_schema().quasi_identifiers}
    role = roles[column]
    assert isinstance(role, Categorical)
    return role.hierarchy.leaves


def _labels(labels: tuple[str, ...], codes: NDArray[np.int64]) -> Any:
    return pa.array(labels).take(pa.array(codes))


def _rebatch(tables: Iterable[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
    """Yield the same rows in tables of `batch_rows` rows; the last one may be smaller."""
    waiting: list[pa.Table] = []
    held = 0
    for table in tables:
        waiting.append(table)
        held += table.num_rows
        if held < batch_rows:
            continue
        whole = pa.concat_tables(waiting).combine_chunks()
        full = held - held % batch_rows
        for start in range(0, full, batch_rows):
            yield whole.slice(start, batch_rows)
        waiting = [whole.slice(full)]
        held -= full
    if held:
        yield pa.concat_tables(waiting).combine_chunks()
