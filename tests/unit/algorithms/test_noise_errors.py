"""What the noise does to a value on average is what it does."""

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.stages import make_keys
from castleguard.privacy.mechanisms import DiscreteLaplace, RandomisedResponse

SCHEMA = cg.Schema(
    person=None,
    quasi_identifiers=[
        cg.Numeric("age", lower=0, upper=100, step=1),
        cg.Categorical("town", hierarchy=["Rome", "Oslo", "Bern"]),
    ],
    sensitive=[cg.Sensitive("job", values=["cook", "clerk"])],
)


@pytest.mark.parametrize("cells", [1, 2, 7, 30])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
def test_the_error_is_the_mean_over_all_levels(cells: int, epsilon: str) -> None:
    from fractions import Fraction

    noise = DiscreteLaplace(cells=cells, epsilon=Fraction(epsilon))
    levels = range(cells + 1)
    mean = sum(noise.probability(i, y) * abs(y - i) for i in levels for y in levels) / (cells + 1)
    assert noise.error == pytest.approx(mean / cells)
    labels = RandomisedResponse(values=cells + 1, epsilon=Fraction(epsilon))
    assert labels.error == pytest.approx(1 - labels.probability(0, 0))


def test_large_grids_have_the_error_of_fine_ones() -> None:
    from fractions import Fraction

    fine, finer = (DiscreteLaplace(cells=cells, epsilon=Fraction(2)).error for cells in (10_000, 2**40))
    assert fine == pytest.approx(finer)
    assert DiscreteLaplace(cells=0, epsilon=Fraction(1)).error == 0


@pytest.mark.compiled
def test_a_policy_names_the_error_that_its_rows_have() -> None:
    policy = cg.Castleguard(k=2, delay=10, epsilon=3.0)
    draw = np.random.default_rng(0)
    rows = 40_000
    age = draw.integers(0, 101, rows)
    towns, jobs = np.array(["Rome", "Oslo", "Bern"]), np.array(["cook", "clerk"])
    table = pa.table({"age": age, "town": towns[draw.integers(0, 3, rows)], "job": jobs[draw.integers(0, 2, rows)]})
    stages = policy.stages(SCHEMA, make_keys(seed=1))
    before = stages.decoder.decode(table).rows
    perturbation = stages.intake._perturbation
    assert perturbation is not None
    after = perturbation.apply(before, 0, np.ones(rows, dtype=bool))
    found = {error.column: error for error in policy.noise_errors(SCHEMA)}
    assert np.mean(np.abs(after.quasi[:, 0] - before.quasi[:, 0])) == pytest.approx(found["age"].size, rel=0.05)
    assert np.mean(after.quasi[:, 1] != before.quasi[:, 1]) == pytest.approx(found["town"].size, rel=0.05)
    assert np.mean(after.sensitive[:, 0] != before.sensitive[:, 0]) == pytest.approx(found["job"].size, rel=0.05)
    assert [str(error) for error in found.values()][1].endswith("% replaced")


def test_without_noise_there_is_nothing_to_name() -> None:
    assert cg.Citadel(k=2, delay=10).noise_errors(SCHEMA) == ()
