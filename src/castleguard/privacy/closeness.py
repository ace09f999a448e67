"""t-closeness (Li, Li, Venkatasubramanian, ICDE 2007): a group's values are distributed nearly as those of all rows.

The measure is the earth mover's distance between the two distributions. The ground distance between two values is
constant (equal), the difference of their ranks (ordered), or the height of their lowest common ancestor (hierarchical).
In a stream, "all rows" are those that have arrived so far. See docs/concepts/criteria.md and docs/proofs/criteria.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import PolicyError
from castleguard.privacy.parameter_fields import check_parameters, declare, parameter
from castleguard.privacy.parameters import is_number

Distance = Literal["equal", "ordered", "hierarchical"]
ReferenceKind = Literal["cumulative", "window", "decay", "public"]
Label = str | int
Shares = NDArray[np.float64]  # (values,) sum to 1; the last one is that of the missing value

_LONGEST_BURN_IN = 1000
_LARGEST_WINDOW = 1 << 26
_SMALLEST_DECAY = 0.001


@dataclass(frozen=True, kw_only=True)
class Closeness:
    """No published group is farther than `t` from the reference distribution, in any sensitive column.

    docs/concepts/criteria.md defines both distributions. The promise holds at the moment of a release.
    """

    t: float = field(metadata=declare("Largest distance of a group from the reference.", above=0, most=1))
    distance: Distance = parameter(
        "equal",
        "Distance between two values: the same for all (equal), by their order (ordered), or by the height at "
        "which their branches meet (hierarchical).",
    )
    reference: ReferenceKind = parameter(
        "cumulative",
        "Rows that a group is compared with: all so far (cumulative), the last ones (window), all weighted by age "
        "(decay), or public shares.",
    )
    window: int | None = parameter(
        None, "Rows of the reference, if it is a window.", least=1, most=_LARGEST_WINDOW, option="reference_window"
    )
    decay: float | None = parameter(
        None, "Weight of a row relative to the next one, if the reference decays.", least=_SMALLEST_DECAY, below=1
    )
    public: Mapping[str, Mapping[Any, float]] | None = field(
        default=None,
        hash=False,
        metadata=declare(
            "Shares of values by sensitive column, if the reference is public; None stands for a missing value.",
            option="",
        ),
    )
    burn_in: int | None = parameter(
        None,
        "Rows that must have arrived before t-closeness is judged and a row is published.",
        least=0,
        default="the delay, at most 1000; 0 if the reference is public",
    )
    alpha: float = parameter(
        1.0, "Pseudocount of every value of a running reference, including the missing value (Dirichlet).", above=0
    )

    def __post_init__(self) -> None:
        if self.public is not None:
            object.__setattr__(self, "public", _checked(self.public))
        check_parameters(self)
        for name in ("window", "decay", "public"):
            if (getattr(self, name) is None) == (self.reference == name):
                raise PolicyError(f"{name} and reference={name!r} go together: give both or neither")

    def chosen_burn_in(self, delay: int = _LONGEST_BURN_IN) -> int:
        """Burn-in in effect."""
        if self.burn_in is not None:
            return self.burn_in
        return 0 if self.reference == "public" else min(delay, _LONGEST_BURN_IN)

    def public_shares(self, column: str, labels: Sequence[Label]) -> Shares:
        """Public reference of a column whose public values are `labels`; the missing value is last."""
        given = {} if self.public is None else dict(self.public.get(column, {}))
        shares = [given.pop(label, given.pop(str(label), 0.0)) for label in labels]
        missing = given.pop(None, 0.0)
        if self.public is None or column not in self.public:
            raise PolicyError(f"public has no shares for the sensitive column {column!r}")
        if given:
            raise PolicyError(f"public: column {column!r} has no value {next(iter(given))!r}")
        return np.array([*shares, missing], dtype=np.float64)

    def fingerprint(self) -> dict[str, object]:
        """Canonical description as JSON values."""
        described: dict[str, object] = {
            name: getattr(self, name) for name in ("t", "distance", "reference", "window", "decay", "burn_in", "alpha")
        }
        shares = self.public or {}
        described["public"] = {
            column: [[label, share] for label, share in shares[column].items()] for column in sorted(shares)
        }
        return described

    def __str__(self) -> str:
        """The criterion in words."""
        to = {
            "cumulative": "all rows so far",
            "window": f"the last {self.window} rows",
            "decay": f"the rows so far, each weighing {self.decay} times the one after it",
            "public": "the public shares",
        }[self.reference]
        return f"t-closeness {self.t:g} ({self.distance} distance) to the distribution of {to} at the moment of release"


class Tree(NamedTuple):
    """A hierarchy of values; the root is node 0, and children come after their parents."""

    parents: NDArray[np.int64]  # (nodes,) -1 for the root
    heights: NDArray[np.float64]  # (nodes,) longest path down to a leaf, as a share of the root's
    leaves: NDArray[np.int64]  # (values,) node of each value


def tree_with_missing(parents: NDArray[np.integer], leaf_nodes: NDArray[np.integer]) -> Tree:
    """A hierarchy with one more leaf, directly below the root, for the missing value: as far as possible from all."""
    grown = np.append(parents.astype(np.int64), 0)
    heights = np.zeros(grown.size)
    for node in range(grown.size - 1, 0, -1):
        heights[grown[node]] = max(heights[grown[node]], heights[node] + 1)
    return Tree(grown, heights / heights[0], np.append(leaf_nodes.astype(np.int64), parents.size))


def distance_equal(p: Shares, q: Shares) -> float:
    """Distance if any two values are 1 apart: half the sum of the differences.

    >>> round(distance_equal(np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.25, 0.25])), 12)
    0.5
    """
    return float(np.sum(np.abs(p - q)) / 2)


def distance_ordered(p: Shares, q: Shares) -> float:
    """Distance if values are as far apart as their ranks, the first and the last 1 apart."""
    return float(np.sum(np.abs(np.cumsum(p - q)[:-1])) / max(p.size - 1, 1))


def distance_hierarchical(p: Shares, q: Shares, tree: Tree) -> float:
    """Distance if two values are as far apart as the height of their lowest common ancestor.

    At every node, the surplus of some branches is moved to the deficit of others as far as possible; the rest is moved
    higher up (Li et al., section 4.3).
    """
    extra = np.zeros(tree.parents.size)
    extra[tree.leaves] = p - q
    surplus = np.zeros(tree.parents.size)
    moved = 0.0
    for node in range(tree.parents.size - 1, -1, -1):
        # The deficit of the branches is surplus - extra. A leaf has no branches and height 0.
        moved += tree.heights[node] * min(surplus[node], surplus[node] - extra[node])
        above = tree.parents[node]
        if above >= 0:
            extra[above] += extra[node]
            surplus[above] += max(extra[node], 0.0)
    return float(moved)


def distance_between(kind: Distance, p: Shares, q: Shares, tree: Tree | None) -> float:
    """Distance of this kind; a hierarchical one needs the tree."""
    if kind == "hierarchical" and tree is not None:
        return distance_hierarchical(p, q, tree)
    return distance_ordered(p, q) if kind == "ordered" else distance_equal(p, q)


def _checked(public: object) -> dict[str, dict[Label | None, float]]:
    """Public shares as dicts; refused unless each is a distribution."""
    if not isinstance(public, Mapping) or not all(isinstance(shares, Mapping) for shares in public.values()):
        raise PolicyError("public must map each sensitive column to a mapping from values to shares")
    checked: dict[str, dict[Label | None, float]] = {}
    for column, shares in public.items():
        if not all(is_number(share) and share >= 0 for share in shares.values()):
            raise PolicyError(f"public: the shares of column {column!r} must be numbers of at least 0")
        if not math.isclose(math.fsum(shares.values()), 1.0, abs_tol=1e-9):
            raise PolicyError(f"public: the shares of column {column!r} must add up to 1")
        checked[column] = {label: float(share) for label, share in shares.items()}
    return checked
