"""The Pima Indians Diabetes data as CASTLEGUARD uses them: eight measurements, and the outcome to be learned."""

import numpy as np
import pyarrow as pa
from pyarrow import csv

from castleguard.lab.datasets import PIMA, read
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive

FEATURES = ("pregnancies", "glucose", "bloodPressure", "skinThickness", "insulin", "bmi", "diabetesPedigree", "age")
OUTCOME = "outcome"
PERSON = "pid"


def load() -> pa.Table:
    """The 768 rows in file order, with a running `pid`: the file has no person. 268 of them have diabetes."""
    table = csv.read_csv(pa.BufferReader(read(PIMA.files[0])))
    return table.append_column(PERSON, pa.array(np.arange(table.num_rows)))


def schema(table: pa.Table, *, strict: bool = False) -> Schema:
    """Features as quasi-identifiers, with the range of the data as their domain; the outcome is protected.

    Strict mode randomises the outcome too, so its values must be public.
    """
    roles = []
    for name in FEATURES:
        values = table.column(name).to_numpy()
        roles.append(Numeric(name, lower=values.min().item(), upper=values.max().item()))
    outcome = Sensitive(OUTCOME, values=[0, 1]) if strict else OUTCOME
    return Schema(person=PERSON, quasi_identifiers=roles, sensitive=[outcome])
