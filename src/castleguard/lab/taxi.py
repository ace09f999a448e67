"""Taxi rides in New York as CASTLEGUARD uses them: start, distance and fare."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from castleguard.lab.datasets import TAXI, read
from castleguard.schema.roles import Numeric, Schema

WHERE, FAR, FARE, PERSON = "PickupLocationID", "TripDistance", "FareAmount", "pid"
COLUMNS = (WHERE, FAR)
PERSONS = 100  # simulated, in the authors' file
SAMPLE = 1_000  # rows, in the paper

_AUTHORS, _JANUARY = TAXI.files
_NAMES = {"pickup_location_id": WHERE, "trip_distance": FAR, "fare_amount": FARE}


def authors() -> pa.Table:
    """The authors' 1,000 rows, very likely those of the paper; 100 simulated persons."""
    return csv.read_csv(pa.BufferReader(read(_AUTHORS)))


def january() -> pa.Table:
    """10,000 rides of January 2019 in order of time, with the same columns; each ride counts as a person."""
    table = csv.read_csv(pa.BufferReader(read(_JANUARY)))
    table = table.take(pc.sort_indices(table, sort_keys=[("pickup_datetime", "ascending")]))
    table = table.select(list(_NAMES)).rename_columns(list(_NAMES.values()))
    return table.append_column(PERSON, pa.array(np.arange(table.num_rows)))


def sample(rides: pa.Table, seed: int) -> pa.Table:
    """Another 1,000 rows like the authors': drawn at random, with 100 simulated persons."""
    draw = np.random.default_rng([2019, seed])
    taken = rides.take(pa.array(np.sort(draw.choice(rides.num_rows, SAMPLE, replace=False))))
    persons = pa.array(draw.integers(0, PERSONS, SAMPLE))
    return taken.set_column(taken.column_names.index(PERSON), PERSON, persons)


def schema(table: pa.Table, *, strict: bool = False) -> Schema:
    """The paper's roles, with the range of the data as the domain.

    Strict mode would randomise the fare and need its declared values; the experiments do not use fares there, so the
    schema has none.
    """
    roles = []
    for name in COLUMNS:
        values = table.column(name).to_numpy()
        roles.append(Numeric(name, lower=values.min().item(), upper=values.max().item()))
    return Schema(person=PERSON, quasi_identifiers=roles, sensitive=[] if strict else [FARE])
