"""Made-up data after CASTLE's paper: power-law numbers, and customers with transactions.

Both follow the paper's description of the two programs that it used. Their files are unknown.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import UsageError

Numbers = NDArray[np.int64]  # (rows,)

_POPULARITY = 1.0  # mean of the exponential weights of items, before they are divided by their sum


def power_law(rows: int, *, alpha: float, largest: int, columns: int, seed: int) -> NDArray[np.int64]:
    """(rows, columns) whole numbers v from 1 to `largest`, each with probability c / v^alpha, as genzipf draws them.

    c makes the probabilities add up to 1; alpha = 0 is the uniform distribution. Columns do not depend on each other.
    The same seed draws the same shares for every alpha, so that a curve over alpha does not jump with the draws.
    """
    if largest < 1 or columns < 1 or rows < 0 or alpha < 0:
        raise UsageError("a power law needs largest and columns of at least 1, and no rows or alpha below 0")
    steps = np.cumsum(power_law_shares(alpha, largest))
    drawn = np.random.default_rng(seed).random((rows, columns)) * steps[-1]
    values: NDArray[np.int64] = np.searchsorted(steps, drawn, side="right").astype(np.int64) + 1
    return values


def power_law_shares(alpha: float, largest: int) -> NDArray[np.float64]:
    """The probabilities of 1, 2, ... `largest`."""
    weights = np.arange(1, largest + 1, dtype=np.float64) ** -alpha
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


class Transactions(NamedTuple):
    """Purchases, one row per item of a transaction, in the order of the customers."""

    customer: Numbers
    """From 1, without gaps: every customer has at least one transaction."""
    transaction: Numbers
    """From 1, over all customers."""
    item: Numbers
    """From 1; a transaction has each item at most once."""


def transactions(
    customers: int, *, per_customer: float, items: float, catalogue: int = 1_000, seed: int
) -> Transactions:
    """Customers with transactions with lists of items, in the manner of the Quest generator (Agrawal, Srikant 1995).

    As there, the number of transactions of a customer and the number of distinct items of a transaction are Poisson
    distributed around `per_customer` and `items`, at least one of each; items have exponentially distributed weights,
    so that some are bought more often. The patterns that Quest hides in the data (sets and sequences of items that
    customers tend to buy together) are left out: CASTLE never looks at the items, only at the number of rows per
    person.
    """
    if customers < 0 or per_customer <= 0 or items <= 0 or catalogue < 10 * items:
        raise UsageError("transactions need means above 0, ten times as many items to choose from, and some customers")
    draw = np.random.default_rng(seed)
    counts = np.maximum(1, draw.poisson(per_customer, customers))
    customer = np.repeat(np.arange(1, customers + 1), counts)
    sizes = np.clip(draw.poisson(items, customer.size), 1, catalogue // 2)
    weights = draw.exponential(_POPULARITY, catalogue)
    return Transactions(
        np.repeat(customer, sizes),
        np.repeat(np.arange(1, customer.size + 1), sizes),
        _items(sizes, weights / weights.sum(), draw),
    )


def _items(sizes: Numbers, shares: NDArray[np.float64], draw: np.random.Generator) -> Numbers:
    """Distinct items for each transaction: duplicates are drawn again until none is left."""
    steps = np.cumsum(shares)
    owner = np.repeat(np.arange(sizes.size), sizes)
    item = np.zeros(owner.size, dtype=np.int64)
    missing = np.arange(owner.size)
    while missing.size:
        drawn = np.searchsorted(steps, draw.random(missing.size) * steps[-1], side="right")
        item[missing] = np.minimum(drawn, shares.size - 1) + 1
        # Keep the first row of every (transaction, item); the stable order makes it the earlier one.
        order = np.lexsort((item, owner))
        again = np.zeros(owner.size, dtype=np.bool_)
        again[order[1:]] = (owner[order[1:]] == owner[order[:-1]]) & (item[order[1:]] == item[order[:-1]])
        missing = np.flatnonzero(again)
    return item
