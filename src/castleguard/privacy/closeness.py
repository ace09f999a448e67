"""t-closeness (Li, Li, Venkatasubramanian, ICDE 2007): a group's values are distributed nearly as everybody's are.

"Nearly" is the earth mover's distance between the two distributions: how far shares have to be moved to make one the
other, where values are equally far apart, or as far as they lie in their order, or as high as one has to climb in
their tree. "Everybody" is, in a stream, who has arrived so far. See docs/concepts/criteria.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import PolicyError
from castleguard.privacy.declared import check_parameters, declare
from castleguard.privacy.parameters import is_number

Distance = Literal["equal", "ordered", "hierarchical"]
ReferenceKind = Literal["cumulative", "window", "decay", "public"]
Label = str | int
Shares = NDArray[np.float64]  # (values,) they add up to 1; the last value is the missing one

_LONGEST_BURN_IN = 1000
_LARGEST_WINDOW = 1 << 26
_SMALLEST_DECAY = 0.001


@dataclass(frozen=True, kw_only=True)
class Closeness:
    """No published group is farther than `t` from the distribution of all rows, in any sensitive column.

    What is compared, and with what, is said in docs/concepts/criteria.md. The promise is for the moment of a release.
    """

    t: float = field(metadata=declare("Largest distance of a group from the reference.", above=0, most=1))
    distance: Distance = field(
        default="equal",
        metadata=declare(
            "Distance between two values: the same for all (equal), by their order (ordered), or by the height at "
            "which their branches meet (hierarchical)."
        ),
    )
    reference: ReferenceKind = field(
        default="cumulative",
        metadata=declare(
            "Rows that a group is compared with: all so far (cumulative), the last ones (window), all weighted by age "
            "(decay), or public shares."
        ),
    )
    window: int | None = field(
        default=None,
        metadata=declare(
            "Rows of the reference, if it is a window.", least=1, most=_LARGEST_WINDOW, option="reference_window"
        ),
    )
    decay: float | None = field(
        default=None,
        metadata=declare(
            "Weight of a row relative to the next one, if the reference decays.", least=_SMALLEST_DECAY, below=1
        ),
    )
    public: Mapping[str, Mapping[Any, float]] | None = field(
        default=None,
        hash=False,
        metadata=declare(
            "Shares of values by sensitive column, if the reference is public; None stands for a missing value.",
            option="",
        ),
    )
    burn_in: int | None = field(
        default=None,
        metadata=declare(
            "Rows that must have arrived before t-closeness is judged and a row is published.",
            least=0,
            default="the delay, at most 1000; 0 if the reference is public",
        ),
    )
    alpha: float = field(
        default=1.0,
        metadata=declare(
            "Pseudocount of every value of a running reference, the missing one too (Dirichlet).", above=0
        ),
    )

    def __post_init__(self) -> None:
        if self.public is not None:
            object.__setattr__(self, "public", _checked(self.public))
        check_parameters(self)
        for name in ("window", "decay", "public"):
            if (getattr(self, name) is None) == (self.reference == name):
                raise PolicyError(f"{name} and reference={name!r} go together: give both or neither")

    def chosen_burn_in(self, delay: int = _LONGEST_BURN_IN) -> int:
        """The burn-in in force."""
        if self.burn_in is not None:
            return self.burn_in
        return 0 if self.reference == "public" else min(delay, _LONGEST_BURN_IN)

    def public_shares(self, column: str, labels: Sequence[Label]) -> Shares:
        """The public reference for a column whose public values are `labels`; the missing value is last."""
        given = {} if self.public is None else dict(self.public.get(column, {}))
        shares = [given.pop(label, given.pop(str(label), 0.0)) for label in labels]
        missing = given.pop(None, 0.0)
        if self.public is None or column not in self.public:
            raise PolicyError(f"public has no shares for the sensitive column {column!r}")
        if given:
            raise PolicyError(f"public: column {column!r} has no value {next(iter(given))!r}")
        return np.array([*shares, missing], dtype=np.float64)

    def fingerprint(self) -> dict[str, object]:
        """A canonical description that JSON can hold."""
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
    """Where values stand in a hierarchy; nodes are numbered so that a child comes after its parent (the root is 0)."""

    parents: NDArray[np.int64]  # (nodes,) the root's is -1
    heights: NDArray[np.float64]  # (nodes,) the longest way down to a leaf, as a share of the root's
    leaves: NDArray[np.int64]  # (values,) the node of each value


def tree_with_missing(parents: NDArray[np.integer], leaf_nodes: NDArray[np.integer]) -> Tree:
    """A hierarchy with one more leaf directly below the root, which stands for a missing value: it is as far from
    every other value as values can be.
    """
    grown = np.append(parents.astype(np.int64), 0)
    heights = np.zeros(grown.size)
    for node in range(grown.size - 1, 0, -1):
        heights[grown[node]] = max(heights[grown[node]], heights[node] + 1)
    return Tree(grown, heights / heights[0], np.append(leaf_nodes.astype(np.int64), parents.size))


def distance_equal(p: Shares, q: Shares) -> float:
    """The distance where any two values are 1 apart: the shares that have to be moved.

    >>> round(distance_equal(np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.25, 0.25])), 12)
    0.5
    """
    return float(np.sum(np.abs(p - q)) / 2)


def distance_ordered(p: Shares, q: Shares) -> float:
    """The distance where values are as far apart as they lie in their order, the first and the last 1 apart."""
    return float(np.sum(np.abs(np.cumsum(p - q)[:-1])) / max(p.size - 1, 1))


def distance_hierarchical(p: Shares, q: Shares, tree: Tree) -> float:
    """The distance where two values are as far apart as the lowest node above both is high.

    At every node what its branches have too much of is moved to those that have too little, as far as that goes; the
    rest is moved higher up (Li et al., section 4.3).
    """
    extra = np.zeros(tree.parents.size)
    extra[tree.leaves] = p - q
    too_much = np.zeros(tree.parents.size)
    moved = 0.0
    for node in range(tree.parents.size - 1, -1, -1):
        # Branches have too_much - extra too little. A leaf has no branches, and its height is 0.
        moved += tree.heights[node] * min(too_much[node], too_much[node] - extra[node])
        above = tree.parents[node]
        if above >= 0:
            extra[above] += extra[node]
            too_much[above] += max(extra[node], 0.0)
    return float(moved)


def distance_between(kind: Distance, p: Shares, q: Shares, tree: Tree | None) -> float:
    """The distance of that kind; a hierarchical one needs the tree."""
    if kind == "hierarchical" and tree is not None:
        return distance_hierarchical(p, q, tree)
    return distance_ordered(p, q) if kind == "ordered" else distance_equal(p, q)


def _checked(public: object) -> dict[str, dict[Label | None, float]]:
    """The public shares as plain mappings, each of them a distribution."""
    if not isinstance(public, Mapping) or not all(isinstance(shares, Mapping) for shares in public.values()):
        raise PolicyError("public must give for each sensitive column a mapping from values to shares")
    checked: dict[str, dict[Label | None, float]] = {}
    for column, shares in public.items():
        if not all(is_number(share) and share >= 0 for share in shares.values()):
            raise PolicyError(f"public: the shares of column {column!r} must be numbers that are not negative")
        if not math.isclose(math.fsum(shares.values()), 1.0, abs_tol=1e-9):
            raise PolicyError(f"public: the shares of column {column!r} must add up to 1")
        checked[column] = {label: float(share) for label, share in shares.items()}
    return checked
