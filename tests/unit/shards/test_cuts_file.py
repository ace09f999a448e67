"""cuts.json round-trips, and a file that does not fit is refused in one line."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from castleguard.errors import ConfigError, OutputError
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.shards.cut_tree import Cut, Cuts
from castleguard.shards.cuts import cut_domain
from castleguard.shards.cuts_file import cuts_from_json, cuts_to_json, describe_shards, read_cuts, write_cuts

TREE = Hierarchy.from_mapping({"Any": {"School": ["Junior", "Senior"], "University": ["Bachelor", "Master"]}})
SCHEMA = Schema(
    person=None,
    quasi_identifiers=[
        Numeric("age", lower=0, upper=100, step=10),
        Numeric("rate", lower=0, upper=1, step=0.1),
        Numeric("born", lower=dt.date(1900, 1, 1), upper=dt.date(2000, 1, 1), step=1),
        Numeric("came", lower=dt.datetime(2026, 1, 1), upper=dt.datetime(2026, 1, 2), step=900),
        Categorical("education", hierarchy=TREE),
    ],
)
CUTS = Cuts(Cut("age", 40.0, Cut("rate", 0.3, 0, 1), Cut("education", 2.0, 2, Cut("born", 0.0, 3, 4))))


def test_file_is_readable_by_people() -> None:
    assert json.loads(cuts_to_json(CUTS, SCHEMA)) == {
        "shards": 5,
        "columns": ["age", "rate", "education", "born"],
        "tree": {
            "column": "age",
            "at": 40,
            "below": {"column": "rate", "at": 0.3, "below": {"shard": 0}, "above": {"shard": 1}},
            "above": {
                "column": "education",
                "at": "Bachelor",
                "below": {"shard": 2},
                "above": {"column": "born", "at": "1970-01-01", "below": {"shard": 3}, "above": {"shard": 4}},
            },
        },
    }


def test_shards_are_described_by_their_regions() -> None:
    assert describe_shards(CUTS, SCHEMA) == (
        "age below 40, rate below 0.3",
        "age below 40, rate from 0.3",
        "age from 40, education School",
        "age from 40, education University, born below 1970-01-01",
        "age from 40, education University, born from 1970-01-01",
    )
    assert describe_shards(Cuts(0), SCHEMA) == ("everything",)
    twice = Cuts(Cut("age", 80.0, Cut("age", 20.0, 0, 1), 2))
    assert describe_shards(twice, SCHEMA) == ("age below 20", "age from 20 to below 80", "age from 80")
    leaves = Cuts(Cut("education", 1.0, 0, Cut("education", 3.0, 1, 2)))
    assert describe_shards(leaves, SCHEMA) == ("education Junior", "education Senior or Bachelor", "education Master")


@pytest.mark.parametrize("shards", [1, 2, 7, 40])
def test_file_round_trips(shards: int, tmp_path: Path) -> None:
    cuts = cut_domain(SCHEMA, shards, columns=[role.name for role in SCHEMA.quasi_identifiers])
    write_cuts(cuts, SCHEMA, tmp_path / "cuts.json")
    assert read_cuts(tmp_path / "cuts.json", SCHEMA) == cuts


def file(tree: Any, **other: Any) -> str:
    return json.dumps({"shards": 2, "columns": ["age"], "tree": tree, **other})


def cut(column: Any, at: Any) -> dict[str, Any]:
    return {"column": column, "at": at, "below": {"shard": 0}, "above": {"shard": 1}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON, or nested too deeply"),
        ("[]", "needs the keys shards, columns and tree"),
        (file(cut("age", 40), more=1), "needs the keys shards, columns and tree, and no others"),
        (file(cut("age", 40), shards=3), "its key shards is 3, but its tree has 2"),
        (file(cut("age", 40), columns=["rate"]), "its key columns differs from its tree, which has age"),
        (file(cut("height", 40)), "cuts 'height', which is not a quasi-identifier"),
        (file(cut(["age"], 40)), "which is not a quasi-identifier"),
        (file(cut("age", 45)), "column 'age': a cut point is neither on an edge of the public grid"),
        (file(cut("age", "old")), "column 'age': a cut point must be a number, got 'old'"),
        (file(cut("age", True)), "must be a number"),
        (file(cut("age", float("nan"))), "must be finite"),
        (file(cut("born", 5)), "column 'born': a cut point must be a date, got 5"),
        (file(cut("came", "soon")), "must be a timestamp, got 'soon'"),
        (file(cut("education", "University")), "must be a leaf of its hierarchy, got 'University'"),
        (file(cut("age", 40) | {"above": {"shard": 0}}), "each of the shards 0 to 1 once"),
        (file(cut("age", 40) | {"above": {"shard": "one"}}), "a shard must be a whole number, got 'one'"),
        (file(cut("age", 40) | {"above": 1}), "neither a cut nor a shard"),
        (file({"column": "age"}), "needs the keys column, at, below and above"),
    ],
)
def test_file_that_does_not_fit_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        cuts_from_json(text, SCHEMA, name="my.json")
    assert str(refused.value).startswith("my.json ")
    assert "\n" not in str(refused.value)


def test_unreadable_and_unwritable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.json cannot be read"):
        read_cuts(tmp_path / "none.json", SCHEMA)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_cuts(tmp_path / "bytes.json", SCHEMA)
    with pytest.raises(OutputError, match="cannot be written"):
        write_cuts(CUTS, SCHEMA, tmp_path / "no" / "cuts.json")
