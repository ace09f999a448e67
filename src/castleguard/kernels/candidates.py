"""Candidates for the rows nearest to a box: a scan in single precision that leaves few rows to measure exactly.

`split` and `split_diverse` choose rows by their exact distances, and of equals the earliest. Most rows are so far away
that a rough distance, which is much cheaper, rules them out. A row is ruled out only if enough other rows are certainly
nearer, so the choice is the same as without the scan.

A rough distance is a sum over the attributes in units of their domains, hence `columns` times the exact one. Its error,
with u = 2^-24, half the spacing of single precision at 1: a coordinate is in 0..1, so its conversion to single
precision is off by at most u / 2 (and by 2^-52 before that, in double precision). The difference of two coordinates is
rounded once more, by at most u / 2: a number contributes less than 2 u. A category contributes the difference of two
losses in 0..1, rounded three times by at most u / 2: less than 2 u too. The sum is rounded `columns` times, each time
by at most u times its size, which is at most `columns`. Together: e = u * columns * (columns + 2). The exact distance
is computed in double precision; its own error is below a millionth of e.

Let `wanted` rows have rough distances of at most r. Then the `wanted` nearest rows, whichever of equals are taken, have
exact distances of at most (r + e) / columns, so their rough distances are at most r + 2 e, up to that millionth.
`lay_out_lines` returns 4 e, which also covers the rounding of the sum r + 4 e.
"""

import numpy as np

from castleguard.kernels.arrays import Ints
from castleguard.kernels.citadel_state import FAR
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.loss import LEAVES, NUMERIC, Domain, Point, stretched_loss
from castleguard.kernels.neighbours import ANYWHERE, find_least
from castleguard.kernels.sorting import lower_half, make_key, select_keys
from castleguard.kernels.state import Work
from castleguard.kernels.views import line_of, nearest_of, scan_of
from castleguard.kernels.widths import add_category, add_outside, add_outside_three

_FOUR_U = 2.0**-22
_MOST_LEAVES = 1 << 24  # leaf numbers up to this one are exact in single precision
FEW = 32  # rows: measuring all of them exactly is faster than a scan
_LEAST_LANES = 32
_LANES = 3  # times the rows wanted


@kernel
def lay_out_lines(domain: Domain, work: Work, row: Ints, count: Int) -> np.float32:
    """Lay rows out attribute-major, numbers as coordinates in 0..1; return the tolerance of rough distances.

    If the error bound does not hold, the tolerance is so large that every row is a candidate.
    """
    columns = work.lines.shape[0]
    scan = scan_of(work)
    tolerance = np.float32(_FOUR_U * columns * (columns + 2))
    for at in range(count):
        scan.gone[at] = np.float32(0)
    if count <= FEW:
        return tolerance
    for column in range(columns):
        line = work.lines[column]
        if domain.layout[column, NUMERIC] == 0:
            for at in range(count):
                line[at] = np.float32(work.point[row[at], column])
            if domain.layout[column, LEAVES] > _MOST_LEAVES:
                tolerance = ANYWHERE
            continue
        lower = domain.bounds[0, column]
        width = domain.bounds[1, column] - lower
        inside = width < np.inf
        for at in range(count):
            # At most 1: rounding is monotone, so a smaller value minus `lower` is at most `width`.
            coordinate = (work.point[row[at], column] - lower) / width if width > 0.0 else 0.0
            inside = inside and 0.0 <= coordinate <= 1.0
            line[at] = np.float32(coordinate)
        if not inside:
            tolerance = ANYWHERE
            for at in range(count):
                line[at] = np.float32(0)
    return tolerance


@kernel
def begin_box(work: Work, at: Int) -> None:
    """Start the box with one row of the line."""
    scan = scan_of(work)
    for column in range(work.lines.shape[0]):
        scan.low[column] = work.lines[column, at]
        scan.high[column] = work.lines[column, at]


@kernel
def widen_box(work: Work, at: Int) -> None:
    """Extend the box to include a row of the line."""
    scan = scan_of(work)
    for column in range(work.lines.shape[0]):
        scan.low[column] = min(scan.low[column], work.lines[column, at])
        scan.high[column] = max(scan.high[column], work.lines[column, at])


@kernel
def are_numbers(domain: Domain, first: Int, stop: Int) -> Bool:
    """Whether the columns first..stop are numbers."""
    for column in range(first, stop):
        if domain.layout[column, NUMERIC] == 0:
            return False
    return True


@kernel
def scan_rows(domain: Domain, work: Work, first: Int, stop: Int) -> None:
    """Compute the rough distances from the box to the rows first..stop of the line."""
    scan = scan_of(work)
    size = stop - first
    far = scan.far[:size]
    gone = scan.gone[first:stop]
    for at in range(size):
        far[at] = gone[at]
    columns = work.lines.shape[0]
    lines = work.lines
    column = 0
    while column < columns:
        if column + 3 <= columns and are_numbers(domain, column, column + 3):
            three = (lines[column, first:stop], lines[column + 1, first:stop], lines[column + 2, first:stop])
            add_outside_three(three, scan.low, scan.high, column, size, far)
            column += 3
            continue
        low, high = scan.low[column], scan.high[column]
        if domain.layout[column, NUMERIC] == 1:
            add_outside(lines[column, first:stop], low, high, size, far)
        else:
            add_category(domain, column, scan.growth, lines[column, first:stop], (low, high), far)
        column += 1


@kernel
def list_rows(work: Work, first: Int, size: Int) -> Int:
    """List all rows that are not taken as candidates, without a scan; return their number. For few rows."""
    gone = scan_of(work).gone
    keys = work.keys[2]
    found = 0
    for at in range(size):
        keys[found] = np.uint64(at)
        found += gone[first + at] < FAR
    return found


@kernel
def measure(domain: Domain, work: Work, box: tuple[Point, Point], first: Int, found: Int) -> None:
    """Compute the exact loss of a box after adding each candidate.

    `first` is the index in the line of the first scanned row.
    """
    row = line_of(work).row
    nearest = nearest_of(work)
    keys = work.keys[2]
    far = nearest.far
    lower, upper = box
    for number in range(found):
        nearest.row[number] = row[first + np.int64(keys[number])]
        far[number] = stretched_loss(domain, lower, upper, work.point[nearest.row[number]])


@kernel
def list_candidates(work: Work, size: Int, wanted: Int, tolerance: np.float32) -> tuple[Int, np.float32]:
    """List the scanned rows that may be among the `wanted` nearest, in the order of the line, in work.keys[2].

    Return their number, and a rough distance within which at least `wanted` rows are (or all of them).

    The rows are dealt to lanes in turn. The least distances of `wanted` lanes belong to as many rows, so the largest of
    them is such a distance; with a few lanes per wanted row it is a tight one.
    """
    scan = scan_of(work)
    keys = work.keys[2]
    lanes = max(_LANES * wanted, _LEAST_LANES) // 16 * 16
    if size < 2 * lanes:
        lanes = size
    padded = (size + lanes - 1) // lanes * lanes
    for at in range(size, padded):
        scan.far[at] = FAR
    least = scan.far[:size]
    if lanes < size:
        least = scan.least[:lanes]
        find_least(scan.far[:padded], lanes, least)
    radius = ANYWHERE
    if wanted < lanes:
        bits = least.view(np.uint32)
        for lane in range(lanes):
            keys[lane] = make_key(bits[lane], lane)
        select_keys(keys, 0, lanes, wanted)
        farthest = np.uint64(0)
        for at in range(wanted):
            farthest = max(farthest, keys[at])
        radius = least[lower_half(farthest)]
    limit = min(radius + tolerance, ANYWHERE)
    found = 0
    for at in range(size):
        keys[found] = np.uint64(at)
        found += scan.far[at] <= limit
    return found, radius
