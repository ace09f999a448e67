"""The gate's matching of persons to sensitive values, for `l_per="person"`. See docs/proofs/castle.md.

Plain augmenting paths. The engine's compiled matching shares no code with it, so either can reveal a bug of the other.
"""

from collections.abc import Iterable


def largest_matching(pairs: Iterable[tuple[int, int]], enough: int | None = None) -> int:
    """Size of a largest matching between persons and values, from the (person, value) pairs of a group.

    The search stops once `enough` are matched.

    >>> largest_matching([(1, 10), (1, 20), (2, 10)])
    2
    >>> largest_matching([(1, 10), (1, 20), (1, 30)])
    1
    """
    holders: dict[int, set[int]] = {}
    for person, value in pairs:
        holders.setdefault(value, set()).add(person)
    matching = _Matching(holders)
    matched = 0
    for value in holders:
        if matched == enough:
            break
        matched += matching.find_person(value)
    return matched


class _Matching:
    """Persons matched to values, each at most once."""

    def __init__(self, holders: dict[int, set[int]]) -> None:
        self._holders = holders
        self._value_of: dict[int, int] = {}
        self._person_of: dict[int, int] = {}

    def find_person(self, first: int) -> bool:
        """Match one more value, moving other persons to other values of theirs if necessary."""
        reached_by: dict[int, int] = {}  # value from which a person was reached
        waiting = [first]
        while waiting:
            value = waiting.pop()
            for person in self._holders[value] - reached_by.keys():
                reached_by[person] = value
                if person not in self._value_of:
                    self._move_up(person, reached_by)
                    return True
                waiting.append(self._value_of[person])
        return False

    def _move_up(self, person: int, reached_by: dict[int, int]) -> None:
        """Match the free person to the value it was reached from; move that value's former person in the same way."""
        while True:
            value = reached_by[person]
            moved = self._person_of.get(value)
            self._person_of[value] = person
            self._value_of[person] = value
            if moved is None:
                return
            person = moved
