"""Simulated sites, on a stream small enough to recount everything."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.schema.roles import Numeric, Schema
from castleguard.sites import simulation
from castleguard.sites.memory_relay import Faults, Relay
from castleguard.sites.simulation import Simulated, simulate

SCHEMA = Schema(
    person="p",
    quasi_identifiers=[Numeric("x", lower=0, upper=100, step=5), Numeric("y", lower=0, upper=100, step=5)],
    sensitive=["s"],
    public=["row"],
)
POLICY = Dcastle(sites=3, k=4, l=2, delay=24, share_threshold=2)


def table(rows: int) -> pa.Table:
    random = np.random.default_rng(1)
    columns = {"p": random.integers(0, rows // 2, rows), "s": random.integers(0, 4, rows), "row": np.arange(rows)}
    return pa.table({**columns, **{name: random.integers(0, 101, rows) for name in ("x", "y")}})


def check(simulated: Simulated, given: pa.Table, policy: Dcastle) -> None:
    """Check that every group has k persons and l values, and that every row is in the books once."""
    rows = given.to_pylist()
    groups = defaultdict(list)
    for published_row in simulated.output.to_pylist():
        row = rows[published_row["row"]]
        box = (published_row["x_min"], published_row["x_max"], published_row["y_min"], published_row["y_max"])
        assert box[0] <= row["x"] < box[1] or row["x"] == box[1] == 100
        assert box[2] <= row["y"] < box[3] or row["y"] == box[3] == 100
        groups[box].append(row)
    assert min(len({row["p"] for row in group}) for group in groups.values()) >= policy.k
    assert min(len({row["s"] for row in group}) for group in groups.values()) >= policy.l
    published = simulated.output["row"].to_pylist()
    assert len(published) == len(set(published)) == simulated.total("published") + simulated.total("received")
    assert simulated.total("rows_in") == len(rows) == len(published) + simulated.total("suppressed")
    assert simulated.total("handed_over") == simulated.total("received")
    assert simulated.total("pending") == simulated.total("undecided") == 0


@pytest.mark.parametrize("batch", [0, 1, 20])
def test_joint_output_keeps_the_guarantee(batch: int) -> None:
    given = table(200)
    simulated = simulate(given, SCHEMA, POLICY, seed=1, batch=batch)
    check(simulated, given, POLICY)
    assert simulated.messages > 0
    assert simulated.bytes > simulated.messages
    assert simulated.total("received") > 0
    assert list(simulated.reports) == ["site01", "site02", "site03"]


def test_larger_batches_lead_to_fewer_joint_releases() -> None:
    given = table(200)
    one, many = (simulate(given, SCHEMA, POLICY, seed=1, batch=batch).total("received") for batch in (1, 20))
    assert many < one / 2


def test_faults_cost_only_information() -> None:
    given = table(200)
    faults = Faults(loss=0.2, doubled=0.3, delay=2, unsure=0.2)
    check(simulate(given, SCHEMA, POLICY, seed=1, batch=1, faults=faults), given, POLICY)


@pytest.mark.parametrize("seed", range(4))
def test_sites_finish_even_if_messages_are_lost(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    moments, pass_time = [], Relay.pass_time

    def counted(relay: Relay) -> None:
        moments.append(relay)
        pass_time(relay)

    monkeypatch.setattr(Relay, "pass_time", counted)
    given = table(200)
    faults = Faults(loss=0.1, delay=2)
    check(simulate(given, SCHEMA, POLICY, seed=seed, batch=20, faults=faults), given, POLICY)
    assert len(moments) < 1_000 < simulation._LAST_MOMENTS


def test_single_site_sends_no_messages() -> None:
    given = table(60)
    policy = Dcastle(sites=1, k=4, delay=24)
    simulated = simulate(given, SCHEMA, policy, seed=1)
    check(simulated, given, policy)
    assert (simulated.messages, simulated.bytes) == (0, 0)


def test_total_loss_is_averaged_over_all_rows() -> None:
    given = table(200)
    simulated = simulate(given, SCHEMA, POLICY, seed=1)
    losses = [
        (
            (published_row["x_max"] - published_row["x_min"]) / 100
            + (published_row["y_max"] - published_row["y_min"]) / 100
        )
        / 2
        for published_row in simulated.output.to_pylist()
    ]
    assert simulated.information_loss == pytest.approx(np.mean(losses))
    assert simulate(given.slice(0, 1), SCHEMA, POLICY, seed=1).information_loss is None


def test_repr_of_a_simulation_shows_no_rows() -> None:
    assert "output" not in repr(simulate(table(20), SCHEMA, POLICY, seed=1))
