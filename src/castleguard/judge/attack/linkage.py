"""How well somebody is found again who knows a person's quasi-identifiers: the three attackers of the literature.

f is the number of persons in a published group, F that in the population from which they come. The *prosecutor* knows
that his victim is in the file, and is right with probability 1/f. The *journalist* only knows that the victim is in the
population: 1/F. The *marketer* wants many: the share of all persons that he would name rightly. (Names as in ARX.)
"""

from dataclasses import dataclass

import numpy as np

from castleguard.judge.reading.boxes import Side
from castleguard.judge.reading.identities import NOBODY
from castleguard.judge.reading.inside import RowsInside
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.originals import Originals
from castleguard.judge.reading.values import Codes, Numbers


@dataclass(frozen=True)
class Risks:
    """What one attacker achieves, person by person: the worst of the groups that a person is in."""

    per_person: Numbers
    threshold: float

    @property
    def highest(self) -> float:
        """The risk of the person that is exposed most."""
        return float(self.per_person.max(initial=0.0))

    @property
    def mean(self) -> float:
        """The mean over persons."""
        return float(self.per_person.mean()) if self.per_person.size else 0.0

    @property
    def above(self) -> float:
        """The share of persons whose risk is above the threshold."""
        return float(np.mean(self.per_person > self.threshold)) if self.per_person.size else 0.0


def prosecutor(linked: Linked, *, threshold: float) -> Risks:
    """1/f for each person: his worst group."""
    person, group = _memberships(linked)
    return Risks(_worst(person, 1.0 / np.maximum(linked.persons_per_group, 1)[group]), threshold)


def share_of_rows(linked: Linked) -> Numbers:
    """For each person the largest share that his rows have of a group: who picks a row of the group at random and names
    this person is right so often. Where persons have one row each, that is 1/f.
    """
    known = linked.known
    person, group = linked.originals.persons[linked.row[known]], linked.groups[known]
    _, number = np.unique(person, return_inverse=True)
    many = int(number.max(initial=0)) + 1
    pairs, rows = np.unique(group * many + number, return_counts=True)
    return _worst(pairs % many, rows / linked.rows_per_group[pairs // many])


def marketer(linked: Linked) -> float:
    """The share of memberships that somebody names rightly who guesses everywhere: the mean of 1/f over them, which is
    the number of groups over the number of memberships.
    """
    _, group = _memberships(linked)
    return float(np.mean(1.0 / np.maximum(linked.persons_per_group, 1)[group])) if group.size else 0.0


def population_counts(sides: tuple[Side, ...], groups: Codes, population: Originals) -> Codes:
    """F of each group: how many persons of the population have values inside its box."""
    search = RowsInside(sides, groups, population)
    found = [np.unique(search.persons[search.inside(group)]) for group in range(search.count)]
    return np.array([np.count_nonzero(persons != NOBODY) for persons in found], dtype=np.int64)


def journalist(linked: Linked, population: Codes, *, threshold: float) -> Risks:
    """1/F for each person: his worst group. The population counts at least as many as the group itself has."""
    person, group = _memberships(linked)
    most = np.maximum(population, linked.persons_per_group)
    return Risks(_worst(person, 1.0 / np.maximum(most, 1)[group]), threshold)


def marketer_of_population(linked: Linked, population: Codes) -> float:
    """(1/n) sum over groups of f/F, n the sum of all f."""
    persons = linked.persons_per_group
    together = int(persons.sum())
    return float(np.sum(persons / np.maximum(np.maximum(population, persons), 1)) / together) if together else 0.0


def _memberships(linked: Linked) -> tuple[Codes, Codes]:
    """Every pair of a person and a group that he is in, once."""
    known = linked.known
    _, number = np.unique(linked.originals.persons[linked.row[known]], return_inverse=True)
    many = int(number.max(initial=0)) + 1
    pairs = np.unique(linked.groups[known] * many + number)
    return pairs % many, pairs // many


def _worst(person: Codes, risk: Numbers) -> Numbers:
    worst: Numbers = np.zeros(int(person.max(initial=-1)) + 1)
    np.maximum.at(worst, person, risk)
    return worst
