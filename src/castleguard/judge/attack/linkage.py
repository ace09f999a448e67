"""Re-identification risk for an attacker who knows a person's quasi-identifiers: the three attackers of the literature.

f is the number of persons in a published group, F the number of persons in the population that match its box. The
*prosecutor* knows that the victim is in the file, and is right with probability 1/f. The *journalist* only knows that
the victim is in the population: 1/F. The *marketer* targets everyone: the share of all persons identified correctly.
(Names as in ARX.)
"""

from dataclasses import dataclass

import numpy as np

from castleguard.judge.reading.boxes import Side
from castleguard.judge.reading.equality import NO_PERSON
from castleguard.judge.reading.inside import RowsInside
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.originals import Originals
from castleguard.judge.reading.values import Codes, Numbers


@dataclass(frozen=True)
class Risks:
    """Risk of each person under one attacker, in the worst group of that person."""

    per_person: Numbers
    threshold: float

    @property
    def highest(self) -> float:
        """Risk of the most exposed person."""
        return float(self.per_person.max(initial=0.0))

    @property
    def mean(self) -> float:
        """Mean over persons."""
        return float(self.per_person.mean()) if self.per_person.size else 0.0

    @property
    def above(self) -> float:
        """Share of persons with a risk above the threshold."""
        return float(np.mean(self.per_person > self.threshold)) if self.per_person.size else 0.0


def prosecutor(linked: Linked, *, threshold: float) -> Risks:
    """1/f of each person's worst group."""
    person, group = _memberships(linked)
    return Risks(_worst(person, 1.0 / np.maximum(linked.persons_per_group, 1)[group]), threshold)


def share_of_rows(linked: Linked) -> Numbers:
    """Largest share of a group's rows that belong to one person, for each person.

    This is the probability that a random row of the group belongs to the person. With one row per person, it is 1/f.
    """
    known = linked.known
    person, group = linked.originals.persons[linked.row[known]], linked.groups[known]
    _, number = np.unique(person, return_inverse=True)
    many = int(number.max(initial=0)) + 1
    pairs, rows = np.unique(group * many + number, return_counts=True)
    return _worst(pairs % many, rows / linked.rows_per_group[pairs // many])


def marketer(linked: Linked) -> float:
    """Expected share of memberships guessed correctly: the mean of 1/f, or number of groups over memberships."""
    _, group = _memberships(linked)
    return float(np.mean(1.0 / np.maximum(linked.persons_per_group, 1)[group])) if group.size else 0.0


def population_counts(sides: tuple[Side, ...], groups: Codes, population: Originals) -> Codes:
    """F of each group: persons of the population with values inside its box."""
    search = RowsInside(sides, groups, population)
    found = [np.unique(search.persons[search.inside(group)]) for group in range(search.count)]
    return np.array([np.count_nonzero(persons != NO_PERSON) for persons in found], dtype=np.int64)


def journalist(linked: Linked, population: Codes, *, threshold: float) -> Risks:
    """1/F of each person's worst group. F is at least the number of persons in the group."""
    person, group = _memberships(linked)
    most = np.maximum(population, linked.persons_per_group)
    return Risks(_worst(person, 1.0 / np.maximum(most, 1)[group]), threshold)


def marketer_of_population(linked: Linked, population: Codes) -> float:
    """(1/n) times the sum over groups of f/F, where n is the sum of all f."""
    persons = linked.persons_per_group
    together = int(persons.sum())
    return float(np.sum(persons / np.maximum(np.maximum(population, persons), 1)) / together) if together else 0.0


def _memberships(linked: Linked) -> tuple[Codes, Codes]:
    """Distinct pairs of a person and a group that contains one of their rows."""
    known = linked.known
    _, number = np.unique(linked.originals.persons[linked.row[known]], return_inverse=True)
    many = int(number.max(initial=0)) + 1
    pairs = np.unique(linked.groups[known] * many + number)
    return pairs % many, pairs // many


def _worst(person: Codes, risk: Numbers) -> Numbers:
    worst: Numbers = np.zeros(int(person.max(initial=-1)) + 1)
    np.maximum.at(worst, person, risk)
    return worst
