"""l-diversity per person agrees with an exhaustive search over assignments."""

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.kernels.compile import entry_kernel
from castleguard.kernels.person_matching import enough_matched
from castleguard.kernels.views import Matching
from tests.reference.measure import Row, matching

Ints = NDArray[np.int64]
Edges = list[tuple[int, int]]  # person, value


@entry_kernel
def ask(scratch: Matching, persons: Ints, values: Ints, value_count: int, answers: NDArray[np.bool_]) -> None:
    """For every number of persons: whether as many can be matched to different values."""
    for wanted in range(answers.size):
        answers[wanted] = enough_matched(scratch, persons, values, value_count, wanted)


def try_all(values: list[int], edges: Edges, taken: frozenset[int] = frozenset()) -> int:
    """Maximum number of values matched to different persons, by trying every assignment."""
    if not values:
        return 0
    first, *rest = values
    best = try_all(rest, edges, taken)
    for person in {person for person, value in edges if value == first} - taken:
        best = max(best, 1 + try_all(rest, edges, taken | {person}))
    return best


def answers(edges: Edges) -> list[bool]:
    """Results by number of persons wanted, from 0 to one more than possible."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(value for _, value in edges))}
    persons = np.array([person for person, _ in edges], dtype=np.int64)
    values = np.array([numbers[value] for _, value in edges], dtype=np.int64)
    out = np.zeros(len(numbers) + 2, dtype=np.bool_)
    room = max(len(edges), 5) + 1  # persons are numbered up to 4
    scratch: list[Any] = [np.full(room, 7, dtype=np.int64) for _ in Matching._fields]
    scratch[Matching._fields.index("key")] = np.full(room, 7, dtype=np.uint64)
    ask(Matching(*scratch), persons, values, len(numbers), out)
    return [bool(answer) for answer in out]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=14))
@example([(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)])
@example([(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (0, 3)])
def test_matching_is_as_large_as_the_best_assignment(edges: Edges) -> None:
    values = sorted({value for _, value in edges})
    most = try_all(values, edges)
    assert answers(edges) == [wanted <= most for wanted in range(len(values) + 2)]
    rows = [Row(at, person, (), (value,)) for at, (person, value) in enumerate(edges)]
    assert matching(rows, 0) == most
