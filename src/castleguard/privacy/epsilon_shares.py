"""Split one epsilon over the columns of a row exactly: the shares are fractions that add up to it."""

import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction

from castleguard.errors import PolicyError

Shares = dict[str, Fraction]

_LARGEST = Fraction(10) ** 150


def share_epsilon(
    columns: Sequence[str],
    *,
    epsilon: float | None = None,
    phi: float | None = None,
    weights: Mapping[str, float] | None = None,
) -> Shares:
    """Epsilon of every column: `epsilon` split evenly or by weights, or `phi` for each.

    >>> share_epsilon(["age", "job"], epsilon=1.0, weights={"job": 3})
    {'age': Fraction(1, 4), 'job': Fraction(3, 4)}
    >>> share_epsilon(["age", "job"], phi=2)
    {'age': Fraction(2, 1), 'job': Fraction(2, 1)}
    """
    if (epsilon is None) == (phi is None):
        raise PolicyError("give either epsilon (for the whole row) or phi (for each column)")
    if phi is not None:
        if weights is not None:
            raise PolicyError("weights need epsilon: with phi every column has the same share")
        return dict.fromkeys(columns, _loss("phi", phi))
    assert epsilon is not None
    check_weights(weights)
    parts = {name: exact(f"the weight of {name!r}", weight) for name, weight in (weights or {}).items()}
    unknown = sorted(parts.keys() - set(columns))
    if unknown:
        raise PolicyError(f"weights names an unknown column {unknown[0]!r}; the columns are {', '.join(columns)}")
    shares = {name: parts.get(name, Fraction(1)) for name in columns}
    total, whole = sum(shares.values()), _loss("epsilon", epsilon)
    return {name: whole * share / total for name, share in shares.items()}


def check_weights(weights: object) -> None:
    """Refuse weights that are not a mapping; their values are checked in `share_epsilon`."""
    if weights is not None and not isinstance(weights, Mapping):
        raise PolicyError(f"weights must be a dict from columns to numbers, got {type(weights).__name__}")


def _loss(what: str, number: float) -> Fraction:
    """An epsilon whose sums and squares stay within the floats."""
    found = exact(what, number)
    if found > _LARGEST:
        raise PolicyError(f"{what} must be at most {float(_LARGEST):g}, got {number} (this adds practically no noise)")
    return found


def float_above(number: Fraction) -> float:
    """Smallest float that is not below a fraction, so that a stated epsilon is never too small.

    >>> float_above(Fraction(1, 2)), float_above(Fraction(3, 10)) > 0.3
    (0.5, True)
    """
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def exact(what: str, number: float) -> Fraction:
    """A positive number as an exact fraction of its decimal form: 0.1 is one tenth."""
    if isinstance(number, bool) or not isinstance(number, int | float | Fraction):
        raise PolicyError(f"{what} must be a number above 0, got {number}")
    if not -sys.float_info.max <= number <= sys.float_info.max:
        shown = f"{number:g}" if isinstance(number, float) else "one too large for a float"
        raise PolicyError(f"{what} must be a number above 0, got {shown}")
    if number <= 0:
        raise PolicyError(f"{what} must be above 0, got {number}")
    return number if isinstance(number, Fraction) else Fraction(repr(number))
