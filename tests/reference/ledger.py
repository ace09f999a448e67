"""The contribution cap: how many rows of one person are accepted. Slow and obvious: every accepted row is remembered.

`at` is a time, or the number of an arrival. A row that is refused does not count.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor, inf


@dataclass
class SlidingLedger:
    """At most `rows_per_person` accepted rows of a person in any window; a window of None is for ever.

    `at` never goes back: only what lies before a row is counted, so a late one could overfill a window after it.
    """

    rows_per_person: int
    window: float | None
    accepted: list[tuple[Hashable, float]] = field(default_factory=list)  # (person, at)
    _last: float = -inf

    def accepts(self, person: Hashable, at: float) -> bool:
        """Whether the row is accepted; if so it counts from now on."""
        if at < self._last:
            raise ValueError("a sliding window needs rows in order of time")
        self._last = at
        counted = [when for who, when in self.accepted if who == person and self._counts(when, at)]
        if len(counted) < self.rows_per_person:
            self.accepted.append((person, at))
            return True
        return False

    def _counts(self, when: float, at: float) -> bool:
        """Whether it lies in (at - window, at]."""
        return self.window is None or Fraction(when) > Fraction(at) - Fraction(self.window)


@dataclass
class AlignedLedger:
    """At most `rows_per_person` accepted rows of a person in each of the windows [n * window, (n + 1) * window)."""

    rows_per_person: int
    window: float
    accepted: list[tuple[Hashable, int]] = field(default_factory=list)  # (person, number of the window)

    def accepts(self, person: Hashable, at: float) -> bool:
        """Whether the row is accepted; if so it counts from now on."""
        number = floor(Fraction(at) / Fraction(self.window))
        if self.accepted.count((person, number)) < self.rows_per_person:
            self.accepted.append((person, number))
            return True
        return False
