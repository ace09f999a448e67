"""One epsilon split over the columns of a row, exactly: the shares add up to the whole as fractions."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from castleguard.errors import PolicyError

Shares = dict[str, Fraction]


def share_epsilon(
    columns: Sequence[str],
    *,
    epsilon: float | None = None,
    phi: float | None = None,
    weights: Mapping[str, float] | None = None,
) -> Shares:
    """The epsilon of every column: `epsilon` split evenly or by weights, or `phi` for each of them.

    >>> share_epsilon(["age", "job"], epsilon=1.0, weights={"job": 3})
    {'age': Fraction(1, 4), 'job': Fraction(3, 4)}
    >>> share_epsilon(["age", "job"], phi=2)
    {'age': Fraction(2, 1), 'job': Fraction(2, 1)}
    """
    if (epsilon is None) == (phi is None):
        raise PolicyError("give epsilon (for the whole row) or phi (for each column), and only one of them")
    if phi is not None:
        if weights is not None:
            raise PolicyError("weights split epsilon: with phi every column has the same share")
        return dict.fromkeys(columns, exact("phi", phi))
    assert epsilon is not None
    parts = {name: exact(f"the weight of {name!r}", weight) for name, weight in (weights or {}).items()}
    unknown = sorted(parts.keys() - set(columns))
    if unknown:
        raise PolicyError(f"weights names {unknown[0]!r}, which is none of the columns: {', '.join(columns)}")
    shares = {name: parts.get(name, Fraction(1)) for name in columns}
    total, whole = sum(shares.values()), exact("epsilon", epsilon)
    return {name: whole * share / total for name, share in shares.items()}


def float_above(number: Fraction) -> float:
    """The smallest float that is not below a fraction: a statement may be too modest, never too proud.

    >>> float_above(Fraction(1, 2)), float_above(Fraction(3, 10)) > 0.3
    (0.5, True)
    """
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def exact(what: str, number: float) -> Fraction:
    """A positive number, taken as it is written: 0.1 is a tenth."""
    if isinstance(number, bool) or not isinstance(number, int | float | Fraction) or not math.isfinite(number):
        raise PolicyError(f"{what} must be a number above 0, got {number}")
    if number <= 0:
        raise PolicyError(f"{what} must be above 0, got {number}")
    return number if isinstance(number, Fraction) else Fraction(repr(number))
