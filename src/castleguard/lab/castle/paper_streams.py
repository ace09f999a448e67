"""Streams of CASTLE's section 5: Adult, power laws, and Adult with purchases.

A stream is a small value from which another process can make the rows; they are cached there for the next run.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa

from castleguard.lab import adult, synthetic
from castleguard.lab.baselines.coded_boxes import Coded, read
from castleguard.schema.roles import Numeric, Schema

ROW = "row"
"""Public column that numbers the rows of a stream."""

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
        values = synthetic.power_law(
            self.rows, alpha=self.alpha, largest=self.largest, columns=self.columns, seed=self.seed
        )
        names = [f"v{number + 1}" for number in range(self.columns)]
        roles = [Numeric(name, lower=1, upper=self.largest) for name in names]
        columns = {name: pa.array(values[:, at]) for at, name in enumerate(names)}
        return _numbered(pa.table(columns), Schema(person=None, quasi_identifiers=roles))


@dataclass(frozen=True)
class Purchases:
    """UCI-Adult joined with transactions: one row per item that a customer buys.

    The first 30,162 customers are the persons of Adult, each further one a random person, as in the paper.
    """

    duplicates: int
    """Mean number of items of a transaction: dup."""
    names: tuple[str, ...]
    customers: int = 32_000
    per_customer: float = 1.5
    rows: int = 150_000
    """Rows after which the stream ends, even within a customer."""
    seed: int = 0

    def table(self) -> tuple[pa.Table, Schema]:
        """The rows of a customer are consecutive, as the generator writes them."""
        whole = _adult("UCI")
        # Every customer has a transaction, so the rows never reach more customers than this.
        customers = min(self.customers, 2 * self.rows // self.duplicates + 100)
        bought = synthetic.transactions(
            customers, per_customer=self.per_customer, items=self.duplicates, seed=self.seed
        )
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
