"""The syntactic promise: k-anonymity over persons and l-diversity, as one value that engine and gate share."""

from dataclasses import dataclass
from typing import Literal

from castleguard.errors import PolicyError

CountedPer = Literal["row", "person"]


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """What every published group must have. k: Samarati and Sweeney 1998, over persons as CASTLE's Definition 2.1;
    l: distinct l-diversity, Machanavajjhala et al. 2006. See docs/proofs/castle.md.
    """

    k: int
    """Distinct persons per group."""
    l: int = 1  # the papers' own name
    """Distinct values of every sensitive column per group; 1 asks for nothing."""
    l_per: CountedPer = "row"
    """"row": the values of all rows count. "person": l different persons must each stand for a value of their own."""

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 2:
            raise PolicyError(f"k must be a whole number of at least 2, got {self.k} (k=1 publishes rows unprotected)")
        if not isinstance(self.l, int) or isinstance(self.l, bool) or self.l < 1:
            raise PolicyError(f"l must be a whole number of at least 1, got {self.l}")
        if self.l > self.k:
            raise PolicyError(f"l must not be above k, got l={self.l} and k={self.k}: l values need l rows in a group")
        if self.l_per not in ("row", "person"):
            raise PolicyError(f"l_per must be 'row' or 'person', got {self.l_per!r}")
