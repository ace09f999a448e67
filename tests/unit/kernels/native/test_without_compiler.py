"""Every algorithm in every mode publishes rows without numba: an installation from a wheel has none."""

import subprocess
import sys

import pytest

from tests.patience import WHOLE_RUN

PROGRAM = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None  # importing them fails
import pyarrow as pa
import castleguard as cg
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.sites.simulation import simulate

ROWS = 60
schema = cg.Schema(
    person="pid",
    quasi_identifiers=[
        cg.Numeric("age", lower=0, upper=100, step=5),
        cg.Categorical("place", hierarchy=cg.Hierarchy.from_mapping({"all": ["a", "b", "c"]})),
    ],
    sensitive=[cg.Sensitive("job", values=["x", "y", "z"])],
)
table = pa.table({
    "pid": [row % 20 for row in range(ROWS)], "age": [row * 7 % 100 for row in range(ROWS)],
    "place": ["abc"[row % 3] for row in range(ROWS)], "job": ["xyz"[row // 3 % 3] for row in range(ROWS)],
})
numbers = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)])
policies = [
    (schema, cg.Citadel(k=3, l=2, delay=20)),
    (schema, cg.Citadel(k=3, delay=20, reuse="narrow")),
    (schema, cg.Castle(k=3, l=2, delay=20, l_per="person")),
    (schema, cg.Castle(k=3, delay=20, reuse="off", closeness=cg.Closeness(t=0.5))),
    (schema, cg.Castle(k=3, delay=20, mode="paper", order="arrival")),
    (schema, cg.Castleguard(k=3, delay=20, epsilon=9)),
    (schema, cg.Castleguard(k=3, delay=20, epsilon=9, grouping="citadel")),
    (schema, cg.Castleguard(k=3, delay=20, mode="paper", phi=100, sample_rate=0.9)),
    (schema, cg.Sdgs(k=3, sample_rate=0.5, epsilon=1, window=30, window_unit="rows")),
    (schema, cg.Doca(k=3, delay=20, epsilon=9)),
    (numbers, cg.Doca(delay=20, epsilon=9, mode="paper")),
]
for schema_of, policy in policies:
    stream = cg.Anonymiser(schema_of, policy, seed=1)
    stream.push(table.select(schema_of.columns), now=0.0)
    stream.tick(1.0)
    stream.flush(warn=False)
    assert stream.report().published > 0 or policy.name == "sdgs", policy
    cg.Anonymiser.restore(schema_of, policy, stream.snapshot())
simulate(table, schema, Dcastle(k=3, delay=20, sites=2), seed=1)
print("published")
"""


@pytest.mark.compiled
def test_every_algorithm_publishes_without_numba() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=WHOLE_RUN, check=False
    )
    assert done.stdout.endswith("published\n"), done.stderr[-2000:]
