"""Columns inside nested JSON: FHIR patients, and the envelopes of Debezium."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from castleguard.connectors.files import JsonSourceOptions
from castleguard.connectors.formats import open_reader
from castleguard.connectors.json_paths import read_path
from castleguard.connectors.payloads import read_payloads
from castleguard.jobs.identity import identity_of
from castleguard.jobs.load import load

Run = Callable[..., Any]

PATIENT = {
    "resourceType": "Patient",
    "id": "p17",
    "birthDate": "1987-05-12",
    "gender": "female",
    "name": [{"family": "Roe", "given": ["Zoe"]}],
    "address": [{"city": "Oslo", "postalCode": "0150"}, {"city": "Rome"}],
}
FHIR = {"city": "address[0].city", "postcode": "address[0].postalCode"}
ENVELOPE = {
    "schema": {"type": "struct"},
    "payload": {"op": "c", "before": None, "after": {"pid": 17, "fare": 12.50, "zone": "A"}, "ts_ms": 1},
}
DEBEZIUM = {"pid": "payload.after.pid", "fare": "payload.after.fare", "op": "payload.op"}


def test_patients_of_fhir_bulk_data_are_read(tmp_path: Path) -> None:
    path = tmp_path / "Patient.ndjson"
    bare = {"resourceType": "Patient", "id": "p18", "gender": "male"}
    path.write_text(f"{json.dumps(PATIENT)}\n{json.dumps(bare)}\nnot json\n")
    with closing(open_reader(path, ["id", "birthDate", "city", "postcode"], keep_bad=True, fields=FHIR)) as reader:
        rows = [row for batch in reader for row in batch.to_pylist()]
        assert reader.malformed == 1
    assert rows == [
        {"id": "p17", "birthDate": "1987-05-12", "city": "Oslo", "postcode": "0150"},
        {"id": "p18", "birthDate": None, "city": None, "postcode": None},
    ]


def test_envelopes_of_debezium_are_read_from_messages() -> None:
    deleted = {"payload": {"op": "d", "after": None}}
    payloads = [json.dumps(ENVELOPE).encode(), b"{", json.dumps(deleted).encode()]
    found = read_payloads("json", payloads, ["pid", "fare", "op"], fields=DEBEZIUM)
    assert found.rows.to_pylist() == [
        {"pid": "17", "fare": "12.5", "op": "c"},
        {"pid": None, "fare": None, "op": "d"},
    ]
    assert [bad.place for bad in found.bad] == [1]
    assert read_payloads("json", payloads[:1], ["pid"], fields=DEBEZIUM).rows.to_pylist() == [{"pid": "17"}]


def test_values_are_those_of_flat_objects() -> None:
    values = [1, 1.0, 1.50, 1e300, 12345678901234567890, True, "x", None, [1, {"a": 2}], {"b": 1}, ""]
    nested = [json.dumps({"a": {"b": [value]}}).encode() for value in values]
    flat = [json.dumps({"v": value}).encode() for value in values]
    found = read_payloads("json", nested, ["v"], fields={"v": "a.b[0]"})
    assert found.rows.equals(read_payloads("json", flat, ["v"]).rows)


def test_a_column_with_a_path_is_not_read_from_the_top() -> None:
    payload = json.dumps({"v": "top", "a": {}}).encode()
    assert read_payloads("json", [payload], ["v"], fields={"v": "a.v"}).rows.to_pylist() == [{"v": None}]


@pytest.mark.parametrize("path", ["", ".", "a..b", "a[", "a[x]", "a]b", "[0", "a.", "a[-1]"])
def test_paths_that_cannot_be_read_are_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a path such as"):
        JsonSourceOptions(path=tmp_path, fields={"v": path})


def test_steps_of_a_path() -> None:
    assert read_path("[1].a[0][2].b c") == (1, "a", 0, 2, "b c")


def test_a_job_reads_nested_objects_and_paths_are_part_of_its_identity(tmp_path: Path) -> None:
    from castleguard.jobs.in_process import load_job

    rows = ({**PATIENT, "id": f"p{n}", "address": [{"city": ("Oslo", "Rome")[n % 2]}]} for n in range(200))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = f"""
name: patients
source: {{type: jsonl, path: {tmp_path}/in.jsonl, fields: {{city: "address[0].city"}}}}
schema:
  person: id
  quasi_identifiers:
    - {{name: city, hierarchy: [Oslo, Rome]}}
privacy: {{algorithm: citadel, k: 3, delay: 50}}
sink: {{type: jsonl, path: {tmp_path}/out}}
"""
    (tmp_path / "job.yaml").write_text(text)
    job = load_job(tmp_path / "job.yaml")
    assert job.run() == "finished"
    assert job.books().published == 200
    (tmp_path / "other.yaml").write_text(text.replace("address[0]", "address[1]"))
    (tmp_path / "plain.yaml").write_text(text.replace(', fields: {city: "address[0].city"}', ""))
    sources = [identity_of(load(tmp_path / f"{name}.yaml"))["source"] for name in ("job", "other", "plain")]
    assert sources[0] != sources[1]
    assert set(sources[2]) == {"type", "path"}


def test_a_csv_dialect_is_part_of_the_identity_of_a_job(tmp_path: Path) -> None:
    text = """
name: x
source: {type: csv, path: in.csv, csv: {separator: ;}}
schema: {person: a, quasi_identifiers: [{name: b, lower: 0, upper: 9}]}
privacy: {algorithm: citadel, k: 3, delay: 50}
sink: {type: csv, path: out}
"""
    (tmp_path / "job.yaml").write_text(text)
    (tmp_path / "plain.yaml").write_text(text.replace(", csv: {separator: ;}", ""))
    first, second = (identity_of(load(tmp_path / f"{name}.yaml"))["source"] for name in ("job", "plain"))
    assert set(first) == {"type", "path", "csv"}
    assert set(second) == {"type", "path"}
