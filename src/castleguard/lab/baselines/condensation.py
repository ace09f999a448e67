"""Condensation (Aggarwal and Yu, EDBT 2004), the dynamicGroup that CASTLE compares itself with in its section 5.3.

Groups of k rows are made of the first rows, the history. Every later row joins the group whose centroid is nearest,
and a group that has 2k rows is split in two. The paper keeps of a group only how many rows it has, their sums and the
sums of their products, and generates new rows from these. CASTLE measures ranges, for which the rows themselves are
needed: here every decision is made from the statistics alone, as the paper has it, and the rows are kept beside them.

All rows leave at the end, numbers only, and every row counts as a person of its own. docs/concepts/baselines.md says
how open points are read.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import PolicyError, UsageError
from castleguard.lab.baselines.coded_boxes import NOWHERE, Boxed, Coded, Codes, Values, bounding_boxes
from castleguard.schema.roles import Numeric

Scale = Literal["domain", "values"]
"""What distances are of: values as shares of their domains, or as they are. Neither paper says, and much depends on it:
as they are, the column with the largest numbers decides alone."""

HISTORY = 8000
"""Rows of the history with which dynamicGroup did best in CASTLE's comparison."""


def condensation(coded: Coded, *, k: int, history: int = HISTORY, seed: int = 0, scale: Scale = "domain") -> Boxed:
    """Group the rows, of which the first `history` are known beforehand, and publish each group's bounding box.

    With fewer than k rows nothing is published.
    """
    for role in coded.schema.quasi_identifiers:
        if not isinstance(role, Numeric):
            raise UsageError(f"condensation groups numbers only, and column {role.name!r} holds categories")
    values = coded.rows.quasi
    box = np.full(coded.count, NOWHERE, dtype=np.int64)
    usable = coded.usable
    points = values[usable] / coded.widths if scale == "domain" else values[usable]
    box[usable] = condense(points, k=k, history=history, seed=seed)
    lower, upper = bounding_boxes(values, box)
    return Boxed(box, lower, upper, np.full(coded.count, coded.count, dtype=np.int64))


def condense(points: Values, *, k: int, history: int = HISTORY, seed: int = 0) -> Codes:
    """The group of every point, numbered from 0; NOWHERE for all if there are fewer than k."""
    if k < 1 or history < 0:
        raise PolicyError(f"k must be at least 1 and history not negative, got k={k} and history={history}")
    if len(points) < k:
        return np.full(len(points), NOWHERE, dtype=np.int64)
    # A group cannot be made of fewer rows than k, so the history is no shorter.
    known = min(max(history, k), len(points))
    groups = Condensed(points.shape[1], k)
    for members in static_groups(points[:known], k, np.random.default_rng(seed)):
        groups.open(members, points[members])
    for row in range(known, len(points)):
        groups.add(row, points[row])
    return groups.assignment(len(points))


def static_groups(points: Values, k: int, choices: np.random.Generator) -> list[Codes]:
    """Groups of a fixed set of at least k points: a random one with its k - 1 nearest, again and again. What is left
    in the end, fewer than k, goes to the group with the nearest centroid.
    """
    left: Codes = np.arange(len(points))
    groups: list[Codes] = []
    while left.size >= k:
        away = _squares(points[left] - points[left[choices.integers(left.size)]])
        # Equal distances are taken in order of arrival. The chosen row is at distance 0, as its equals are.
        nearest = np.argsort(away, kind="stable")[:k]
        groups.append(left[nearest])
        left = np.delete(left, nearest)
    centroids = np.array([points[group].mean(axis=0) for group in groups])
    for row in left.tolist():
        nearest_group = int(_squares(centroids - points[row]).argmin())
        groups[nearest_group] = np.append(groups[nearest_group], row)
    return groups


class Condensed:
    """The groups, as their statistics: how many rows, the sums of their values, the sums of their products."""

    def __init__(self, columns: int, k: int) -> None:
        self.k = k
        self.members: list[list[int]] = []
        self._points: list[list[Values]] = []
        self.sums = np.zeros((16, columns))
        """(groups, columns), the first moments; more room than there are groups."""
        self.products = np.zeros((16, columns, columns))
        """(groups, columns, columns), the second moments."""
        self._centroids = np.zeros((16, columns))
        self._squares = np.zeros(16)

    @property
    def sizes(self) -> list[int]:
        """Rows of every group."""
        return [len(members) for members in self.members]

    @property
    def centroids(self) -> Values:
        """(groups, columns) where the statistics say that the middle of each group is."""
        return self._centroids[: len(self.members)]

    def open(self, rows: Codes, points: Values) -> None:
        """A new group of rows, split if that is too many."""
        number = self._new(rows.tolist(), list(points))
        self.sums[number] = points.sum(axis=0)
        self.products[number] = points.T @ points
        self._move(number)
        if len(rows) >= 2 * self.k:
            self._split(number)

    def add(self, row: int, point: Values) -> None:
        """Put a row into the group with the nearest centroid, the oldest of several."""
        count = len(self.members)
        # |c - x|^2 without |x|^2, which is the same for all.
        number = int((self._squares[:count] - 2 * (self._centroids[:count] @ point)).argmin())
        self.members[number].append(row)
        self._points[number].append(point)
        self.sums[number] += point
        self.products[number] += np.outer(point, point)
        self._move(number)
        if len(self.members[number]) >= 2 * self.k:
            self._split(number)

    def covariance(self, number: int) -> Values:
        """The covariances of a group, from its statistics."""
        count = len(self.members[number])
        mean = self.sums[number] / count
        covariance: Values = self.products[number] / count - np.outer(mean, mean)
        return covariance

    def assignment(self, rows: int) -> Codes:
        """The group of every row."""
        group = np.full(rows, NOWHERE, dtype=np.int64)
        for number, members in enumerate(self.members):
            group[members] = number
        return group

    def _split(self, number: int) -> None:
        """Cut a group in two along its first principal component, as if its rows were spread evenly along it.

        Along it an even spread of variance v is sqrt(12 v) long. Each half has its middle a quarter of that away, and
        a quarter of the variance; in all other directions the halves are as the whole. Of the rows themselves the
        lower half goes to the one and the upper half to the other.
        """
        covariance = self.covariance(number)
        variances, directions = np.linalg.eigh(covariance)
        variance, direction = max(float(variances[-1]), 0.0), _pointing_up(directions[:, -1])
        mean = self.sums[number] / len(self.members[number])
        half = covariance - 0.75 * variance * np.outer(direction, direction)
        shift = np.sqrt(12 * variance) / 4 * direction

        rows, points = self.members[number], self._points[number]
        order = np.argsort(np.array(points) @ direction, kind="stable").tolist()
        middle = len(rows) // 2
        lower, upper = order[:middle], order[middle:]
        other = self._new([rows[at] for at in upper], [points[at] for at in upper])
        self.members[number], self._points[number] = [rows[at] for at in lower], [points[at] for at in lower]
        for which, centroid in ((number, mean - shift), (other, mean + shift)):
            count = len(self.members[which])
            self.sums[which] = count * centroid
            self.products[which] = count * (half + np.outer(centroid, centroid))
            self._move(which)

    def _new(self, rows: list[int], points: list[Values]) -> int:
        number = len(self.members)
        if number == len(self._squares):
            for name in ("sums", "products", "_centroids", "_squares"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
        self.members.append(rows)
        self._points.append(points)
        return number

    def _move(self, number: int) -> None:
        """The statistics of a group have changed: where its centroid is now."""
        self._centroids[number] = self.sums[number] / len(self.members[number])
        self._squares[number] = self._centroids[number] @ self._centroids[number]


def _pointing_up(direction: Values) -> Values:
    """An eigenvector has no sign of its own: its largest component is made positive, so that all machines agree."""
    return direction if direction[np.abs(direction).argmax()] > 0 else -direction


def _squares(differences: Values) -> NDArray[np.float64]:
    """The squared length of every row."""
    lengths: NDArray[np.float64] = np.einsum("ij,ij->i", differences, differences)
    return lengths
