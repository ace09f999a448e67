"""Durations in job files and on the command line: 500ms, 30s, 5m, 2h, 1d, or a number of seconds."""

import math
import re

WORDS = "a duration such as 500ms, 30s, 5m, 2h or 1d, or a number of seconds"
PATTERN = r"^[0-9]+(\.[0-9]+)? ?(ms|s|m|h|d)?$"

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}
_LONGEST = 100  # characters: bounds the work of the pattern


def parse_duration(value: object) -> int | float:
    """Convert a duration to seconds; a number is returned unchanged. Raises ValueError.

    >>> [parse_duration(text) for text in ("500ms", "30s", "1.5h", "2 d", 7)]
    [0.5, 30.0, 5400.0, 172800.0, 7]
    """
    if isinstance(value, str):
        if len(value) > _LONGEST or re.match(PATTERN, value) is None:
            raise ValueError(f"must be {WORDS}")
        number = value.rstrip("mshd ")
        return float(number) * _SECONDS[value[len(number) :].strip()]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"must be {WORDS}")
    return value


def spell_duration(seconds: float) -> str:
    """Format seconds in the largest unit that divides them.

    >>> [spell_duration(seconds) for seconds in (0.25, 5, 90, 7200, 86400)]
    ['250 ms', '5 s', '90 s', '2 h', '1 d']
    """
    if seconds < 1:
        return f"{seconds * 1000:g} ms"
    for unit in ("d", "h", "m"):
        if seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:g} {unit}"
    return f"{seconds:g} s"
