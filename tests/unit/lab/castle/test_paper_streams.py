"""Made-up data follow the stated distributions."""

import numpy as np
import pytest
from numpy.typing import NDArray

from castleguard.errors import UsageError
from castleguard.lab.castle.paper_streams import power_law, power_law_shares, transactions

CHI_SQUARE_9 = 27.88  # above it lies one of a thousand samples with 9 degrees of freedom


def chi_square(values: NDArray[np.int64], shares: NDArray[np.float64]) -> float:
    """Distance of the counts of 1, 2, ... from their expected values."""
    expected = shares * values.size
    counts = np.bincount(values, minlength=shares.size + 1)[1:]
    return float(((counts - expected) ** 2 / expected).sum())


def test_shares_of_a_power_law_by_hand() -> None:
    # 1 + 1/2 + 1/3 + 1/4 = 25/12.
    np.testing.assert_allclose(power_law_shares(1.0, 4), np.array([12, 6, 4, 3]) / 25)
    np.testing.assert_allclose(power_law_shares(0.0, 4), [0.25] * 4)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_numbers_follow_their_power_law(alpha: float) -> None:
    values = power_law(20_000, alpha=alpha, largest=10, columns=2, seed=7)
    assert values.shape == (20_000, 2)
    assert values.min() == 1
    assert values.max() == 10
    for column in values.T:
        assert chi_square(column, power_law_shares(alpha, 10)) < CHI_SQUARE_9
        assert chi_square(column, power_law_shares(alpha + 0.2, 10)) > CHI_SQUARE_9, "another alpha is told apart"


def test_columns_of_a_power_law_do_not_depend_on_each_other() -> None:
    first, second = power_law(20_000, alpha=1.0, largest=10, columns=2, seed=3).T
    shares = power_law_shares(1.0, 10)
    assert chi_square(second[first == 1], shares) < CHI_SQUARE_9
    assert chi_square(second[first > 5], shares) < CHI_SQUARE_9


def test_a_seed_draws_the_same_again_and_another_one_something_else() -> None:
    drawn = [power_law(100, alpha=1.0, largest=50, columns=1, seed=seed).tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    bought = [transactions(50, per_customer=2, items=3, seed=seed).item.tolist() for seed in (1, 1, 2)]
    assert bought[0] == bought[1] != bought[2]


def test_every_customer_has_a_transaction_in_order_of_customers() -> None:
    bought = transactions(500, per_customer=1.5, items=5, seed=0)
    assert np.unique(bought.customer).tolist() == list(range(1, 501))
    assert (np.diff(bought.customer) >= 0).all()
    assert (np.diff(bought.transaction) >= 0).all()
    owners = np.unique(np.stack([bought.transaction, bought.customer]), axis=1)
    assert owners.shape[1] == bought.transaction.max(), "a transaction is one customer's"


def test_a_transaction_has_no_item_twice() -> None:
    bought = transactions(300, per_customer=2, items=15, catalogue=150, seed=0)
    pairs = np.stack([bought.transaction, bought.item])
    assert np.unique(pairs, axis=1).shape[1] == pairs.shape[1]
    assert bought.item.min() >= 1
    assert bought.item.max() <= 150


@pytest.mark.parametrize("items", [5, 10, 15])
def test_transactions_have_the_requested_mean_number_of_items(items: int) -> None:
    bought = transactions(4_000, per_customer=2, items=items, seed=1)
    sizes = np.bincount(bought.transaction)[1:]
    # A Poisson mean of n sizes is off by sqrt(items / n), one in a thousand times by 3.3 of that.
    assert abs(sizes.mean() - items) < 3.3 * (items / sizes.size) ** 0.5 + np.exp(-items)
    assert abs(sizes.var() - items) < 0.1 * items


def test_some_items_are_bought_more_often_than_others() -> None:
    counts = np.bincount(transactions(4_000, per_customer=2, items=5, catalogue=100, seed=2).item)[1:]
    # Exponential weights: the upper tenth of the items has about a third of all, which even shares would not have.
    assert np.sort(counts)[-10:].sum() > 0.25 * counts.sum()


def test_impossible_synthetic_data_are_refused() -> None:
    with pytest.raises(UsageError, match="a power law needs"):
        power_law(10, alpha=-1.0, largest=5, columns=1, seed=0)
    with pytest.raises(UsageError, match="a catalogue of at least"):
        transactions(10, per_customer=1, items=5, catalogue=20, seed=0)
