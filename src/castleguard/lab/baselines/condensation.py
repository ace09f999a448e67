"""Condensation (Aggarwal and Yu, EDBT 2004), the dynamicGroup that CASTLE compares itself with in its section 5.3.

The first rows, the history, form groups of k rows. Every later row joins the group with the nearest centroid, and a
group of 2k rows is split in two. The paper keeps only the size of a group, the sums of its rows and the sums of their
products, and generates new rows from these. CASTLE measures ranges, which need the rows themselves: here every decision
uses the statistics alone, as in the paper, and the rows are kept beside them.

All rows leave at the end, numbers only, and every row counts as a person. docs/concepts/baselines.md lists our readings
of open points.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import PolicyError, UsageError
from castleguard.lab.baselines.coded_boxes import NOWHERE, Boxed, Coded, Codes, Values, bounding_boxes
from castleguard.schema.roles import Numeric

Scale = Literal["domain", "values"]
"""Unit of distances: values as shares of their domains, or as they are. Neither paper says, and much depends on it:
unscaled, the column with the largest numbers decides alone."""

HISTORY = 8000
"""History with which dynamicGroup did best in CASTLE's comparison, in rows."""


def condensation(coded: Coded, *, k: int, history: int = HISTORY, seed: int = 0, scale: Scale = "domain") -> Boxed:
    """Group the rows, with the first `history` known in advance, and publish each group's bounding box.

    Fewer than k rows publish nothing.
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
    # A group needs k rows, so the history has at least k.
    known = min(max(history, k), len(points))
    groups = Condensed(points.shape[1], k)
    for members in static_groups(points[:known], k, np.random.default_rng(seed)):
        groups.open(members, points[members])
    for row in range(known, len(points)):
        groups.add(row, points[row])
    return groups.assignment(len(points))


def static_groups(points: Values, k: int, choices: np.random.Generator) -> list[Codes]:
    """Groups of a fixed set of at least k points: repeatedly, a random point with its k - 1 nearest. The last ones,
    fewer than k, join the group with the nearest centroid."""
    left: Codes = np.arange(len(points))
    groups: list[Codes] = []
    while left.size >= k:
        away = _squares(points[left] - points[left[choices.integers(left.size)]])
        # Ties are broken by arrival. The chosen row has distance 0, as do its equals.
        nearest = np.argsort(away, kind="stable")[:k]
        groups.append(left[nearest])
        left = np.delete(left, nearest)
    centroids = np.array([points[group].mean(axis=0) for group in groups])
    for row in left.tolist():
        nearest_group = int(_squares(centroids - points[row]).argmin())
        groups[nearest_group] = np.append(groups[nearest_group], row)
    return groups


class Condensed:
    """Groups as statistics: number of rows, sums of values, sums of products."""

    def __init__(self, columns: int, k: int) -> None:
        self.k = k
        self.members: list[list[int]] = []
        self._points: list[list[Values]] = []
        self.sums = np.zeros((16, columns))
        """(groups, columns), first moments; allocated for more groups than there are."""
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
        """(groups, columns) the middle of each group by its statistics."""
        return self._centroids[: len(self.members)]

    def open(self, rows: Codes, points: Values) -> None:
        """Open a group of rows, split if it is too large."""
        number = self._new(rows.tolist(), list(points))
        self.sums[number] = points.sum(axis=0)
        self.products[number] = points.T @ points
        self._move(number)
        if len(rows) >= 2 * self.k:
            self._split(number)

    def add(self, row: int, point: Values) -> None:
        """Put a row into the group with the nearest centroid, the oldest among equals."""
        count = len(self.members)
        # |c - x|^2 without |x|^2, which is the same for all groups.
        number = int((self._squares[:count] - 2 * (self._centroids[:count] @ point)).argmin())
        self.members[number].append(row)
        self._points[number].append(point)
        self.sums[number] += point
        self.products[number] += np.outer(point, point)
        self._move(number)
        if len(self.members[number]) >= 2 * self.k:
            self._split(number)

    def covariance(self, number: int) -> Values:
        """Covariances of a group, from its statistics."""
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
        """Split a group along its first principal component, as if its rows were spread evenly along it.

        An even spread of variance v is sqrt(12 v) long. The middle of each half lies a quarter of that away, and each
        half has a quarter of the variance; in all other directions the halves equal the whole. The lower half of the
        rows goes to one group and the upper half to the other.
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
        """Update the centroid after the statistics of a group have changed."""
        self._centroids[number] = self.sums[number] / len(self.members[number])
        self._squares[number] = self._centroids[number] @ self._centroids[number]


def _pointing_up(direction: Values) -> Values:
    """Fix the sign of an eigenvector: its largest component is positive, so that all machines agree."""
    return direction if direction[np.abs(direction).argmax()] > 0 else -direction


def _squares(differences: Values) -> NDArray[np.float64]:
    """Squared length of every row."""
    lengths: NDArray[np.float64] = np.einsum("ij,ij->i", differences, differences)
    return lengths
