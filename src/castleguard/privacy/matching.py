"""How many persons of a group can each stand for a sensitive value of their own: the gate's own answer.

A plain augmenting-path matching, written apart from the engine's compiled one, so that one can catch the other.
"""

from collections.abc import Iterable


def persons_apart(pairs: Iterable[tuple[int, int]]) -> int:
    """The size of a largest matching between persons and values, from the (person, value) pairs of a group.

    >>> persons_apart([(1, 10), (1, 20), (2, 10)])
    2
    >>> persons_apart([(1, 10), (1, 20), (1, 30)])
    1
    """
    holders: dict[int, set[int]] = {}
    for person, value in pairs:
        holders.setdefault(value, set()).add(person)
    stands_for: dict[int, int] = {}

    def find_person(value: int, tried: set[int]) -> bool:
        for person in holders[value] - tried:
            tried.add(person)
            if person not in stands_for or find_person(stands_for[person], tried):
                stands_for[person] = value
                return True
        return False

    return sum(find_person(value, set()) for value in holders)
