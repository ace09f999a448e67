"""Workers give the same results in this process and in others."""

import math

import pytest

from castleguard.workers import workers


@pytest.mark.parametrize("number", [1, 2])
def test_any_number_of_workers_gives_the_same_results(number: int) -> None:
    with workers(number) as pool:
        futures = [pool.submit(math.factorial, each) for each in range(5)]
        assert [future.result() for future in futures] == [1, 1, 2, 6, 24]
        with pytest.raises(ValueError, match="math"):
            pool.submit(math.sqrt, -1.0).result()


def test_start_function_runs_before_any_work() -> None:
    given: list[int] = []
    with workers(1, start=given.append, given=(7,)) as pool:
        assert pool.submit(given.count, 7).result() == 1
