"""Audit, measure and sweep from Python: frames and files give the same findings."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import castleguard as cg
from castleguard.errors import InputError, PolicyError, SchemaError, UsageError

SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)],
    sensitive=["illness"],
    public=["row"],
)
POLICY = cg.Castle(k=3, delay=30)
ORIGINAL = pa.Table.from_pylist(
    [{"pid": n % 80, "age": 20 + n * 7 % 50, "illness": ("flu", "cold", "gout")[n % 3], "row": n} for n in range(200)]
)


@pytest.fixture(scope="module")
def published() -> pa.Table:
    return cg.anonymise(ORIGINAL, SCHEMA, POLICY, seed=1)


def test_an_audit_of_frames_equals_one_of_files(published: pa.Table, tmp_path: Path) -> None:
    pa.parquet.write_table(ORIGINAL, tmp_path / "in.parquet")
    pa.parquet.write_table(published, tmp_path / "out.parquet")
    frames = cg.audit(ORIGINAL, published, SCHEMA, POLICY, link="row", attack_runs=0)
    files = cg.audit(tmp_path / "in.parquet", tmp_path / "out.parquet", SCHEMA, POLICY, link="row", attack_runs=0)
    assert frames.ok
    assert frames.sections == files.sections
    assert frames.subject["original"] == "rows in memory"
    assert files.subject["original"] == str(tmp_path / "in.parquet")
    assert "verdict: no broken promise was found" in str(frames)
    json.dumps(frames.as_json())


def test_an_audit_finds_a_group_below_k(published: pa.Table) -> None:
    found = cg.audit(ORIGINAL, published.to_pylist()[:1], SCHEMA, cg.Castle(k=3, delay=30), link="row", attack_runs=0)
    assert not found.ok
    assert "FAILED" in str(found)


def test_a_frame_without_a_declared_column_is_refused(published: pa.Table) -> None:
    with pytest.raises((InputError, SchemaError), match="illness"):
        cg.audit(ORIGINAL.drop_columns(["illness"]), published, SCHEMA, POLICY, attack_runs=0)


def test_measures_of_frames_are_those_of_files(published: pa.Table, tmp_path: Path) -> None:
    pa.csv.write_csv(ORIGINAL, tmp_path / "in.csv")
    pa.csv.write_csv(published, tmp_path / "out.csv")
    frames = cg.measure(ORIGINAL, published, SCHEMA, link="row", k=3, queries=200)
    files = cg.measure(tmp_path / "in.csv", tmp_path / "out.csv", SCHEMA, link="row", k=3, queries=200)
    assert str(frames) == str(files)
    data = json.loads(json.dumps(frames.as_json(), allow_nan=False))
    assert data["rows"]["original"] == 200
    assert "generalised loss" in str(frames)


@pytest.mark.parametrize("algorithm", ["castle", cg.Castle])
def test_a_sweep_recommends_a_policy(algorithm: str | type) -> None:
    found = cg.sweep(ORIGINAL, SCHEMA, algorithm, {"k": [2, 4, 40], "delay": [10, 30]})
    assert isinstance(found.recommended, cg.Castle)
    data = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert [setting["parameters"] for setting in data["settings"]][:2] == [{"k": 2, "delay": 10}, {"k": 2, "delay": 30}]
    (chosen,) = [setting for setting in data["settings"] if setting["recommended"]]
    assert chosen["parameters"]["k"] == found.recommended.k
    assert [refused["parameters"]["k"] for refused in data["refused"]] == [40, 40]
    assert "settings; * is recommended." in str(found)


def test_a_sweep_chooses_between_algorithms() -> None:
    found = cg.sweep(ORIGINAL, SCHEMA, ["castle", cg.Citadel], {"k": [2, 4], "delay": [30]})
    assert found.recommended.name in ("castle", "citadel")
    tried = [setting["parameters"] for setting in found.as_json()["settings"]]
    assert tried == [{"algorithm": name, "k": k, "delay": 30} for name in ("castle", "citadel") for k in (2, 4)]
    assert f"Take algorithm={found.recommended.name} k={found.recommended.k}" in str(found)
    assert any("Algorithms make different promises" in warning for warning in found.advice.warnings)
    with pytest.raises(UsageError, match="citadel has no parameter 'max_clusters'"):
        cg.sweep(ORIGINAL, SCHEMA, ["castle", "citadel"], {"k": [2], "delay": [10], "max_clusters": [5]})
    with pytest.raises(UsageError, match="algorithm is empty: give a policy or its name"):
        cg.sweep(ORIGINAL, SCHEMA, [], {"k": [2], "delay": [10]})


def test_a_sweep_with_a_folder_does_only_the_rest(tmp_path: Path) -> None:
    first = cg.sweep(ORIGINAL, SCHEMA, "castle", {"k": [2, 4], "delay": [10]}, output=tmp_path / "out")
    lines = (tmp_path / "out" / "results.jsonl").read_text()
    again = cg.sweep(ORIGINAL, SCHEMA, "castle", {"k": [2, 4], "delay": [10]}, output=tmp_path / "out")
    assert (tmp_path / "out" / "results.jsonl").read_text() == lines
    assert again.as_json() == first.as_json()
    assert (tmp_path / "out" / "report.md").exists()


def test_a_sweep_refuses_unknown_parameters_and_single_values() -> None:
    with pytest.raises(UsageError, match="castle has no parameter 'epsilon'"):
        cg.sweep(ORIGINAL, SCHEMA, "castle", {"k": [2], "delay": [10], "epsilon": [1]})
    with pytest.raises(UsageError, match="k needs a list of values"):
        cg.sweep(ORIGINAL, SCHEMA, "castle", {"k": [], "delay": [10]})
    with pytest.raises(UsageError, match="castle needs delay"):
        cg.sweep(ORIGINAL, SCHEMA, "castle", {"k": [2]})
    with pytest.raises(PolicyError, match="unknown algorithm 'castel'"):
        cg.sweep(ORIGINAL, SCHEMA, "castel", {"k": [2], "delay": [10]})
