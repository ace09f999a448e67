"""Synthetic rows must fit the schema, or no kernel would be compiled."""

import datetime as dt

import pytest

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.citadel.policy import Citadel
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.policy import Policy
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from castleguard.spark.warming import synthetic_rows, warm_up
from castleguard.stream import Anonymiser

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[
        Numeric("age", lower=0, upper=100, step=5),
        Numeric("day", lower=dt.date(2020, 1, 1), upper=dt.date(2021, 1, 1)),
        Numeric("at", lower=dt.datetime(2020, 1, 1), upper=dt.datetime(2021, 1, 1)),
        Categorical("town", hierarchy=Hierarchy.flat(["rome", "paris"])),
    ],
    sensitive=[Sensitive("illness", values=["flu", "cold"]), Sensitive("fare", bins=[10, 20]), "note"],
    public=["vendor"],
)


NOISY = Schema(person="pid", quasi_identifiers=SCHEMA.quasi_identifiers[:1], sensitive=SCHEMA.sensitive[:1])


@pytest.mark.parametrize(
    ("schema", "policy"),
    [
        (SCHEMA, Citadel(k=2, delay=10, max_wait=1.0)),
        (SCHEMA, Castle(k=2, delay=10, max_wait=1.0)),
        (NOISY, Doca(epsilon=1.0, k=2, delay=10, max_wait=1.0)),
        (NOISY, Castleguard(k=2, delay=10, epsilon=1.0, max_wait=1.0)),
    ],
)
def test_synthetic_rows_are_never_rejected(schema: Schema, policy: Policy) -> None:
    stream = Anonymiser(schema, policy)
    stream.push(synthetic_rows(schema), now=0.0)
    assert stream.rejected() == []
    assert stream.report().rows_in == 3
    warm_up(schema, policy)
