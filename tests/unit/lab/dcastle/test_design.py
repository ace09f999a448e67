"""The points of the figures, and the columns of the data."""

import pyarrow as pa

from castleguard.lab import adult
from castleguard.lab.dcastle.design import SWEEPS, Data, Setting, Sweep, distinct, shortened
from tests.unit.lab.dcastle.made_up import made_up

QUASI_IDENTIFIERS = [*adult.NUMERIC, "education", "marital-status", "occupation", "native-country"]


def test_quasi_identifiers_are_the_papers_without_the_sensitive_one() -> None:
    data = made_up(50)
    schema = data.schema(Setting())
    assert [role.name for role in schema.quasi_identifiers] == QUASI_IDENTIFIERS
    assert [role.name for role in schema.sensitive] == ["workclass"]
    other = data.schema(Setting(sensitive="occupation", columns=8))
    assert [role.name for role in other.quasi_identifiers] == [*adult.NUMERIC, "workclass", "education"]
    plain = data.schema(Setting(l=1))
    assert plain.quasi_identifiers == schema.quasi_identifiers
    assert plain.sensitive == ()


def test_sweep_changes_one_parameter() -> None:
    sweep = Sweep("delay", (5, 7), Setting(sites=3))
    assert sweep.settings() == [Setting(sites=3, delay=5), Setting(sites=3, delay=7)]
    assert str(sweep) == "delay varied, QI=10, k=100, n=3, l=2, workclass sensitive"


def test_l_can_be_changed_unless_it_is_varied() -> None:
    assert SWEEPS["a"].of_l(6).settings()[0] == Setting(sites=2, columns=2, l=6)
    assert SWEEPS["h"].of_l(6) == SWEEPS["h"]


def test_slow_methods_run_at_the_ends_and_in_the_middle() -> None:
    assert [one.k for one in SWEEPS["c"].few()] == [20, 100, 400]
    assert len(Sweep("k", (2, 3), Setting()).few()) == 2


def test_a_quick_sweep_has_ends_that_fit_few_rows() -> None:
    assert shortened(SWEEPS["d"]).settings() == [Setting(sites=10, k=k, delay=500) for k in (10, 20)]
    assert shortened(SWEEPS["e"]).values == (200, 1_500)
    assert shortened(SWEEPS["i"]).values == (2, 10)


def test_the_figures_have_42_points() -> None:
    assert len(distinct(setting for sweep in SWEEPS.values() for setting in sweep.settings())) == 42


def test_data_have_the_size_of_their_csv_and_a_most_frequent_value() -> None:
    data = Data(pa.table({"a": [10, 200, 10], "b": ["x", "yz", "x"], "pid": [0, 1, 2]}), {})
    assert data.bytes == len("10,x\n200,yz\n10,x\n")
    assert data.values("b") == 2
    assert data.commonest("b") == 2 / 3
