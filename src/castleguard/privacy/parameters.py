"""Checks of privacy parameters, with their error messages."""

import math
import sys
from numbers import Integral, Real
from typing import TypeGuard

from castleguard.errors import PolicyError

LARGEST_COUNT = 2**53  # above it, float64 does not represent every whole number


def check_count(name: str, value: object, *, least: int = 1) -> int:
    """Check a whole number that float64 represents exactly."""
    whole = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if whole is None or not least <= whole <= LARGEST_COUNT:
        raise PolicyError(f"{name} must be a whole number of at least {least} and at most 2**53, got {value}")
    return whole


def check_epsilon(value: object, *, name: str = "epsilon") -> float:
    """Check a loss: finite and at least 0, which is perfect privacy."""
    if not is_number(value) or not 0 <= value < math.inf:
        raise PolicyError(f"{name} must be a finite number of at least 0, got {value}")
    return float(value)


def check_positive(name: str, value: object) -> float:
    """Check a finite number above 0."""
    if not is_number(value) or not 0 < value < math.inf:
        raise PolicyError(f"{name} must be a finite number above 0, got {value}")
    return float(value)


def check_probability(name: str, value: object, *, zero: bool = False, one: bool = False) -> float:
    """Check a number between 0 and 1; the ends are allowed by `zero` and `one`."""
    if not is_number(value) or not (0 < value < 1 or (zero and value == 0) or (one and value == 1)):
        low, high = "at least 0" if zero else "above 0", "at most 1" if one else "below 1"
        raise PolicyError(f"{name} must be a number {low} and {high}, got {value}")
    return float(value)


def check_sampling(*, sample_rate: object, epsilon: object) -> tuple[float, float]:
    """Check a sample rate, and an epsilon within CASTLEGUARD's Theorem 2: at least -ln(1 - sample_rate)."""
    rate, loss = check_sample_rate(sample_rate), check_epsilon(epsilon)
    # A rate computed as 1 - exp(-epsilon) may have been rounded up.
    rounding = sys.float_info.epsilon * (1 / (1 - rate) + loss)
    if loss < least_epsilon(sample_rate=rate) - rounding:
        raise PolicyError(
            f"epsilon must be at least -ln(1 - sample_rate) = {rounded_up(least_epsilon(sample_rate=rate))} "
            f"for sample_rate {rate:g}, got {loss:g}"
        )
    return rate, loss


def check_sample_rate(value: object) -> float:
    """Check the probability that a row is kept; 1 gives no differential privacy."""
    if is_number(value) and value == 1:
        raise PolicyError("sample_rate 1 keeps every row and gives no differential privacy; choose a rate below 1")
    return check_probability("sample_rate", value)


def least_epsilon(*, sample_rate: float) -> float:
    """-ln(1 - sample_rate): removing a row raises the probability of an outcome by a factor of up to 1/(1 - rate).

    >>> round(least_epsilon(sample_rate=0.25), 6)
    0.287682
    """
    return -math.log1p(-check_sample_rate(sample_rate))


def rounded_up(value: float, digits: int = 6) -> str:
    """Format a loss, never smaller than it is.

    >>> rounded_up(0.28768207), rounded_up(2.5), rounded_up(1.2096e-7, 3), rounded_up(0.0)
    ('0.287683', '2.5', '1.21e-07', '0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    nearest = f"{value:.{digits}g}"
    # A sum such as 0.1 + 0.2 is above 0.3 by rounding alone.
    if float(nearest) >= value * (1 - 1e-12):
        return nearest
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return f"{float(nearest) + unit:.{digits}g}"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number of Python or numpy, not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a Python int, not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)
