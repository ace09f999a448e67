"""Criteria of published groups: k-anonymity over persons, diversity and closeness, one value for engine and gate."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from castleguard.errors import PolicyError
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.diversity import Diversity

CountedPer = Literal["row", "person"]

MOST_VALUES = 4096  # values of a column whose distribution is judged: each has its own counter


class ColumnFacts(NamedTuple):
    """Facts about a sensitive column that the criteria depend on."""

    values: int | None  # number of public values, None if they are not declared
    has_tree: bool


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """Criteria that every published group must meet.

    k: Samarati and Sweeney 1998, over persons as in CASTLE's Definition 2.1; l: l-diversity, Machanavajjhala et al.
    2006; closeness: Li et al. 2007. See docs/concepts/criteria.md and docs/proofs/criteria.md.
    """

    k: int
    """Distinct persons per group."""
    l: int = 1  # as named in the papers
    """Distinct values of every sensitive column per group; 1: no l-diversity."""
    l_per: CountedPer = "row"
    """"row": the values of all rows count. "person": l different persons must have l different values, one each."""
    diversity: Diversity = "distinct"
    """Form of l-diversity. "entropy": also an entropy of at least ln l. "recursive": also (c, l)-diversity."""
    c: float | None = None
    """For (c, l)-diversity: the most frequent value occurs less than c times as often as all from the l-th on."""
    closeness: Closeness | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 2:
            raise PolicyError(f"k must be a whole number of at least 2, got {self.k} (k=1 publishes rows unprotected)")
        if not isinstance(self.l, int) or isinstance(self.l, bool) or self.l < 1:
            raise PolicyError(f"l must be a whole number of at least 1, got {self.l}")
        if self.l > self.k:
            raise PolicyError(f"l must not be above k, got l={self.l} and k={self.k} (l values need l rows in a group)")
        if self.l_per not in ("row", "person"):
            raise PolicyError(f"l_per must be 'row' or 'person', got {self.l_per!r}")
        if self.diversity not in get_args(Diversity):
            choices = " or ".join(map(repr, get_args(Diversity)))
            raise PolicyError(f"diversity must be {choices}, got {self.diversity!r}")
        if self.diversity != "distinct" and self.l < 2:
            raise PolicyError(f"diversity={self.diversity!r} needs l of at least 2, got {self.l}")
        if isinstance(self.c, np.generic):
            object.__setattr__(self, "c", self.c.item())
        if (self.c is not None) != (self.diversity == "recursive"):
            raise PolicyError("c and diversity='recursive' go together: give both or neither")
        if self.c is not None and (isinstance(self.c, bool) or not isinstance(self.c, int | float)):
            raise PolicyError(f"c must be a number above 0, got {self.c!r}")
        if self.c is not None and not 0 < self.c < math.inf:
            raise PolicyError(f"c must be a number above 0, got {self.c}")
        if self.closeness is not None and not isinstance(self.closeness, Closeness):
            raise PolicyError(f"closeness must be a Closeness, got {type(self.closeness).__name__}")

    @property
    def judges_shape(self) -> bool:
        """Whether the frequencies of values matter; if so, adding a row may break a criterion."""
        return self.diversity != "distinct" or self.closeness is not None

    def check_columns(self, columns: Mapping[str, ColumnFacts]) -> None:
        """Refuse sensitive columns that these criteria cannot be judged on."""
        what = "t-closeness" if self.closeness is not None else f"{self.diversity} diversity"
        if self.l > 1 and not columns:
            raise PolicyError(f"l={self.l} needs at least one sensitive column in the schema")
        if not self.judges_shape:
            return
        if not columns:
            raise PolicyError(f"{what} needs at least one sensitive column in the schema")
        by_tree = self.closeness is not None and self.closeness.distance == "hierarchical"
        for name, facts in columns.items():
            if facts.values is None:
                raise PolicyError(f"{what} needs the values of column {name!r}: declare its values, hierarchy or bins")
            if facts.values > MOST_VALUES:
                raise PolicyError(f"{what} takes at most {MOST_VALUES} values, column {name!r} has {facts.values}")
            if by_tree and not facts.has_tree:
                raise PolicyError(f"distance='hierarchical' needs a hierarchy for column {name!r}")
