"""Streams of CASTLE's section 5: Adult, power laws, and Adult with purchases.

Power laws and purchases follow the paper's description of the two programs that it used; the original files are
unknown. A stream is a small value: another process can generate its rows, and caches them for the next run.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import UsageError
from castleguard.lab import adult
from castleguard.lab.baselines.coded_boxes import Coded, read
from castleguard.schema.roles import Numeric, Schema

Numbers = NDArray[np.int64]  # (rows,)

ROW = "row"
"""Public column that numbers the rows of a stream."""

_POPULARITY = 1.0  # mean of the exponential weights of items, before they are divided by their sum

# fmt: off
LISTED = (
    "age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week",
    "education", "marital-status", "occupation", "native-country",
)
# fmt: on
"""CASTLE's candidates in the order of its list: a QI of size n is taken as the first n."""
EVEN = tuple(name for name in LISTED if not name.startswith("capital"))
"""Without the two columns that are nearly always 0, as in section 5.2."""
CONTINUOUS = tuple(name for name in LISTED if name in adult.NUMERIC)
EVEN_CONTINUOUS = tuple(name for name in EVEN if name in adult.NUMERIC)


class Stream(Protocol):
    """Input of a run."""

    def table(self) -> tuple[pa.Table, Schema]:
        """The rows in order, and their schema."""
        ...

    def __hash__(self) -> int:
        """Key of the cached rows."""
        ...


@dataclass(frozen=True)
class Adult:
    """UCI-Adult or SFU-Adult, one row per person, in file order."""

    which: Literal["UCI", "SFU"]
    names: tuple[str, ...]
    sensitive: str | None = None
    rows: int | None = None
    """None: all of them."""

    def table(self) -> tuple[pa.Table, Schema]:
        """Domains are the ranges of all rows, as in the paper, even if only some rows are taken."""
        whole = _adult(self.which)
        schema = adult.schema(adult.observed(whole), names=self.names, sensitive=self.sensitive)
        table = whole if self.rows is None else whole.slice(0, self.rows)
        return _numbered(table, schema)


@dataclass(frozen=True)
class PowerLaw:
    """Power-law numbers, one row per person."""

    alpha: float
    rows: int
    largest: int = 1_000
    columns: int = 4
    seed: int = 0

    def table(self) -> tuple[pa.Table, Schema]:
        """Every column has the domain 1 to `largest`, even if some values do not occur."""
        values = power_law(self.rows, alpha=self.alpha, largest=self.largest, columns=self.columns, seed=self.seed)
        names = [f"v{number + 1}" for number in range(self.columns)]
        roles = [Numeric(name, lower=1, upper=self.largest) for name in names]
        columns = {name: pa.array(values[:, at]) for at, name in enumerate(names)}
        return _numbered(pa.table(columns), Schema(person=None, quasi_identifiers=roles))


@dataclass(frozen=True)
class Purchases:
    """UCI-Adult joined with transactions: one row per item that a customer buys.

    The first 30,162 customers are the persons of Adult; each further customer is a random person, as in the paper.
    """

    duplicates: int
    """Mean number of items of a transaction: dup."""
    names: tuple[str, ...]
    customers: int = 32_000
    per_customer: float = 1.5
    rows: int = 150_000
    """Rows after which the stream ends, even in the middle of a customer."""
    seed: int = 0

    def table(self) -> tuple[pa.Table, Schema]:
        """The rows of a customer are consecutive, as the generator writes them."""
        whole = _adult("UCI")
        # Every customer has a transaction, so the rows never reach more customers than this.
        customers = min(self.customers, 2 * self.rows // self.duplicates + 100)
        bought = transactions(customers, per_customer=self.per_customer, items=self.duplicates, seed=self.seed)
        others = np.random.default_rng([self.seed, 1]).integers(0, whole.num_rows, customers)
        known = min(customers, whole.num_rows)
        person = np.concatenate([np.arange(known), others[known:]])
        schema = adult.schema(adult.observed(whole), names=self.names)
        customer = bought.customer[: self.rows]
        table = whole.select(self.names).take(pa.array(person[customer - 1])).combine_chunks()
        return _numbered(table.append_column(adult.PERSON, pa.array(customer)), schema)


@lru_cache(maxsize=6)
def rows_of(stream: Stream) -> tuple[pa.Table, Coded]:
    """Rows of a stream, raw and coded."""
    table, schema = stream.table()
    return table, read(table, schema)


@lru_cache(maxsize=2)
def _adult(which: str) -> pa.Table:
    return adult.uci() if which == "UCI" else adult.sfu()


def _numbered(table: pa.Table, schema: Schema) -> tuple[pa.Table, Schema]:
    """Add a public number per row that identifies published rows."""
    numbered = table.append_column(ROW, pa.array(np.arange(table.num_rows)))
    with_row = Schema(
        person=schema.person_role, quasi_identifiers=schema.quasi_identifiers, sensitive=schema.sensitive, public=[ROW]
    )
    return numbered.select(with_row.columns), with_row


def power_law(rows: int, *, alpha: float, largest: int, columns: int, seed: int) -> NDArray[np.int64]:
    """(rows, columns) whole numbers v from 1 to `largest`, each with probability c / v^alpha, as genzipf draws them.

    c makes the probabilities add up to 1; alpha = 0 is the uniform distribution. Columns do not depend on each other.
    The same seed draws the same shares for every alpha, so that the draws add no jumps to a curve over alpha.
    """
    if largest < 1 or columns < 1 or rows < 0 or alpha < 0:
        raise UsageError("a power law needs largest and columns of at least 1, and rows and alpha of at least 0")
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
    """Transactions of customers, each a list of items, similar to those of Quest (Agrawal, Srikant 1995).

    As in Quest, the number of transactions of a customer and the number of distinct items of a transaction are Poisson
    distributed around `per_customer` and `items`, at least one of each; items have exponentially distributed weights,
    so that some are bought more often. The patterns that Quest hides in the data (sets and sequences of items that
    customers tend to buy together) are left out: CASTLE never looks at the items, only at the number of rows per
    person.
    """
    if customers < 0 or per_customer <= 0 or items <= 0 or catalogue < 10 * items:
        raise UsageError("transactions need means above 0, a catalogue of at least 10 * items, and customers >= 0")
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
