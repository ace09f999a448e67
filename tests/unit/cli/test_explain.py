"""`castleguard explain`: plain words, and true ones."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from castleguard.config.job_model import JobFile
from castleguard.conversion import anonymise
from castleguard.jobs.explain.column_outputs import outputs
from castleguard.jobs.load import load
from tests.unit.cli.conftest import Outcome, Run
from tests.unit.fake_connectors import install

SCHEMA = """\
schema:
  person: patient
  quasi_identifiers:
    - {name: age, lower: 0, upper: 110, step: 5}
    - {name: arrived, lower: 2026-01-01 00:00:00, upper: 2027-01-01 00:00:00}
    - {name: distance_km, lower: 0.0, upper: 200.0, step: 2.5}
    - {name: clinic, hierarchy: [Coast, Riverside, St. Anne, University]}
  sensitive: [{name: diagnosis, values: [asthma, diabetes, influenza, migraine]}]
"""
POLICIES = {
    "citadel": "{algorithm: citadel, k: 5, delay: 100, max_wait: 90s}",
    "castle": "{algorithm: castle, k: 5, delay: 100, max_wait: 90s}",
    "castleguard": "{algorithm: castleguard, k: 5, delay: 100, epsilon: 9}",
    "sdgs": "{algorithm: sdgs, k: 3, sample_rate: 0.5, epsilon: 1, window: 200, window_unit: rows}",
    "doca": "{algorithm: doca, k: 5, delay: 100, epsilon: 9}",
    "paper": "{algorithm: castle, k: 5, delay: 100, mode: paper}",
    "paper doca": "{algorithm: doca, delay: 100, epsilon: 9, mode: paper}",
}


@pytest.fixture
def write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write a job file with more sections."""
    install(monkeypatch)

    def write(privacy: str, *more: str) -> Path:
        lines = [SCHEMA, f"privacy: {privacy}", *more]
        if not any(line.startswith("source") for line in more):
            lines.append("source: {type: csv, path: visits.csv}")
        if not any(line.startswith("sink") for line in more):
            lines.append("sink: {type: parquet, path: out}")
        (folder / "job.yaml").write_text("\n".join(lines), encoding="utf-8")
        return folder / "job.yaml"

    return write


@pytest.fixture
def explain(run: Run, write: Callable[..., Path]) -> Callable[..., str]:
    """Explain a job; the text without line ends."""

    def explain(privacy: str, *more: str) -> str:
        shown: Outcome = run("explain", write(privacy, *more))
        assert (shown.code, shown.err) == (0, "")
        return " ".join(shown.out.split())

    return explain


@pytest.mark.parametrize(
    ("policy", "numbers"), [*((policy, "") for policy in POLICIES), ("castle", "interval"), ("sdgs", "midpoint")]
)
def test_the_columns_are_those_of_the_real_output(
    write: Callable[..., Path], folder: Path, policy: str, numbers: str
) -> None:
    job: JobFile = load(write(POLICIES[policy], f"numbers: {numbers}" if numbers else ""))
    table = pa.csv.read_csv(
        folder / "visits.csv", parse_options=pa.csv.ParseOptions(invalid_row_handler=lambda _: "skip")
    )
    published = anonymise(table, job.schema, job.policy, seed=1, numbers=job.numbers)
    told = [
        name.strip() for entry in outputs(job) for name in entry.output.partition(" (")[0].split(",") if entry.output
    ]
    assert told == published.column_names


def test_every_column_is_explained(explain: Callable[..., str]) -> None:
    text = explain(POLICIES["castle"])
    for part in (
        "from csv (path",
        "age (quasi-identifier) -> age_min, age_max (whole number): a range such as 35 to 45, from 0 to 110",
        "arrived (quasi-identifier) -> arrived_min, arrived_max (timestamp)",
        "distance_km (quasi-identifier) -> distance_km_min, distance_km_max (number)",
        "clinic (quasi-identifier) -> clinic (text): one of 4 labels such as Coast, or * if the labels in a "
        "group differ",
        "diagnosis (sensitive) -> diagnosis: published as it is",
        "patient (person) -> dropped: identifies the person of a row, and is never published",
        "A range of numbers includes its lower bound and excludes its upper bound, except at the end of the domain, "
        "where it includes both.",
        'Values outside the domain are clamped to its nearest end, so a bound there means "or beyond": age',
        "All other columns of the input are dropped.",
        "Every published group of equal quasi-identifiers has at least 5 distinct persons",
    ):
        assert part in text


@pytest.mark.parametrize("policy", POLICIES)
def test_columns_that_clamp_are_named(explain: Callable[..., str], policy: str) -> None:
    text = explain(POLICIES[policy])
    assert "Values outside the domain are clamped to its nearest end" in text
    assert ": age, arrived, distance_km." in text


@pytest.mark.parametrize(
    ("policy", "more", "parts"),
    [
        ("citadel", [], ["when 100 more rows have arrived", "Rows leave in bursts: one release every 12 arrivals.",
                         "A row also leaves after 90 s", "Up to 101 rows are held", "in each release by itself"]),
        ("castle", [], ["when 100 more rows have arrived", "It also leaves after 90 s", "Up to 101 rows are held",
                        "Without a checkpoint nothing can be restored", "Rejected rows are not kept"]),
        ("castle", ["checkpoint: {path: s, every: 2m}"],
         ["up to 2 m later", "none is published twice", "NOT encrypted (no key)", "SIGTERM"]),
        ("castle", ["checkpoint: {path: s}", "sink: {type: stdio}"], ["the last delivery may appear twice"]),
        ("castle", ["dead_letter: {path: s, max_share: 0.1}"], ["raw and NOT encrypted", "more than 0.1 of all rows"]),
        ("castleguard", [], ["Without max_wait, rows wait as long as the source is silent", "randomised first",
                             "new noise, which spends their budget again", "No row is rejected for its values"]),
        ("sdgs", [], ["A row waits for the end of its window, 200 rows.", "one of its declared values, as it is"]),
        ("doca", [], ["the noisy mean of a group of values", "repeated by its noisy count", "Up to 100 rows"]),
        ("paper", [], ["when 100 more rows have arrived", "the range of its group's own values, both ends included"]),
    ],
)  # fmt: skip
def test_delay_restart_and_bad_rows_are_explained(
    explain: Callable[..., str], policy: str, more: list[str], parts: list[str]
) -> None:
    text = explain(POLICIES[policy], *more)
    for part in parts:
        assert part in text


def test_windows_of_time_are_held_whole(explain: Callable[..., str]) -> None:
    text = explain("{algorithm: sdgs, k: 3, sample_rate: 0.5, epsilon: 1, window: 1h}")
    assert "A row waits for the end of its window, 1 h, and is delivered 10 s later." in text
    assert "All rows of a window are held in memory: about" in text


def test_secrets_are_not_shown(explain: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER", "broker.internal:9092")
    text = explain(POLICIES["castle"], "source: {type: kafka, servers: '${BROKER}', topic: t, password: abc-secret}")
    assert "servers ****, topic t, password ****" in text
    assert "internal" not in text
    assert "abc-secret" not in text


def test_an_unsupported_policy_is_not_explained(run: Run, write: Callable[..., Path]) -> None:
    path = write("{algorithm: castle, k: 5, l: 3, delay: 100}")
    path.write_text(path.read_text().replace("  sensitive:", "  public: [vendor]\n  # sensitive:"))
    shown = run("explain", path)
    assert (shown.code, shown.out) == (2, "")
    assert "job.yaml:11  privacy cannot work: l=3 needs at least one sensitive column" in shown.err


def test_columns_whose_cells_hold_one_value_are_named(run: Run, folder: Path) -> None:
    (folder / "fine.yaml").write_text(
        "name: fine\n"
        "source: {type: csv, path: visits.csv}\n"
        "sink: {type: csv, path: out}\n"
        "schema:\n"
        "  person: patient\n"
        "  quasi_identifiers:\n"
        "    - {name: age, lower: 0, upper: 110, step: 1}\n"
        "    - {name: distance_km, lower: 0, upper: 100, step: 5}\n"
        "privacy: {algorithm: castle, k: 5, delay: 100}\n"
    )
    shown = run("explain", folder / "fine.yaml")
    assert shown.code == 0
    assert "so a range of one cell reveals the value: age. Use a larger step to hide it." in " ".join(shown.out.split())
