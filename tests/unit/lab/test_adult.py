"""Adult: rows of both variants, and the schemas of the two papers."""

from pathlib import Path

import pytest

from castleguard.errors import InputError
from castleguard.lab import adult, datasets
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric

TRAINING = b"""\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, Cuba, <=50K
50, ?, 83311, Bachelors, 13, Divorced, Sales, Husband, White, Male, 0, 0, 13, Cuba, <=50K
38, Private, 215646, HS-grad, 9, Divorced, Sales, Not-in-family, White, Male, 0, 0, 40, Cuba, >50K

"""
TEST = b"""\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Sales, Own-child, Black, Male, 0, 0, 40, Cuba, <=50K.

"""


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows of training data, one of them incomplete, and one of test data."""
    content = dict(zip(datasets.ADULT.files, (TRAINING, TEST, b""), strict=True))
    monkeypatch.setattr(adult, "read", lambda file: content[file])


def test_complete_rows_are_numbered_in_file_order(files: None) -> None:
    table = adult.uci()
    assert table.column_names == [*adult.COLUMNS, "pid"]
    assert table["age"].to_pylist() == [39, 38]
    assert table["pid"].to_pylist() == [0, 1]
    assert table["income"].to_pylist() == ["<=50K", ">50K"]


def test_the_test_file_follows_without_its_remark_and_full_stops(files: None) -> None:
    table = adult.sfu()
    assert table["age"].to_pylist() == [39, 38, 25]
    assert table["income"].to_pylist() == ["<=50K", ">50K", "<=50K"]
    assert table["pid"].to_pylist() == [0, 1, 2]


def test_rows_beyond_the_file_repeat_as_new_persons(files: None) -> None:
    table = adult.uci(5)
    assert table["age"].to_pylist() == [39, 38, 39, 38, 39]
    assert table["pid"].to_pylist() == [0, 1, 2, 3, 4]


def test_observed_domains_are_the_ranges_of_the_data(files: None) -> None:
    assert adult.observed(adult.uci())["age"] == (38, 39)
    assert adult.observed(adult.sfu())["fnlwgt"] == (77_516, 226_802)


def test_a_schema_has_the_named_columns_in_their_order() -> None:
    trees = {name: Hierarchy.flat(["a", "b"]) for name in ("education", "workclass")}
    schema = adult.schema(adult.STATED, names=("education", "age"), sensitive="workclass", trees=trees, step=5)
    education, age = schema.quasi_identifiers
    assert isinstance(education, Categorical)
    assert education.hierarchy == trees["education"]
    assert isinstance(age, Numeric)
    assert age.domain == (0, 100)
    assert age.step == 5
    assert [role.name for role in schema.sensitive] == ["workclass"]
    assert schema.person == "pid"


def test_a_schema_of_numbers_needs_no_trees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CASTLEGUARD_DATA", str(tmp_path))
    monkeypatch.setenv("CASTLEGUARD_CACHE", str(tmp_path))
    assert len(adult.schema(adult.STATED).quasi_identifiers) == 6
    with pytest.raises(InputError, match=r"adult is not here.*hierarchies are not from there"):
        adult.schema(adult.STATED, names=("education",))


def test_the_real_files_have_the_papers_rows(data_folder: Path) -> None:
    uci, sfu = adult.uci(), adult.sfu()
    assert (uci.num_rows, sfu.num_rows) == (30_162, 45_222)
    assert sfu.slice(0, 30_162).drop_columns(["pid"]) == uci.drop_columns(["pid"])
    assert adult.observed(uci)["fnlwgt"] == (13_769, 1_484_705)
    assert adult.observed(sfu)["fnlwgt"] == (13_492, 1_490_400)


def test_the_trees_cover_all_values_of_the_data(data_folder: Path) -> None:
    trees, table = adult.hierarchies(), adult.sfu()
    assert {name: len(tree.leaves) for name, tree in trees.items()} == {
        "education": 16,
        "marital-status": 7,
        "occupation": 14,
        "native-country": 41,
        "workclass": 8,
        "relationship": 6,
        "race": 5,
        "sex": 2,
    }
    for name, tree in trees.items():
        assert set(table[name].unique().to_pylist()) <= set(tree.leaves)
        assert tree.labels[0] == "*"
    education = trees["education"]
    bachelors, masters = (education.leaves.index(label) for label in ("Bachelors", "Masters"))
    assert education.labels[education.node(bachelors, masters)] == "University"
