"""Schemas from YAML: the same as from Python, and errors that point at the line."""

import datetime as dt
from pathlib import Path

import pytest

from castleguard.config.document import read_document
from castleguard.config.schema_file import load_schema, schema_section
from castleguard.errors import ConfigError
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Public, Sensitive

WHOLE = """\
person: pid
quasi_identifiers:
  - {name: age, lower: 0, upper: 100, step: 5, null: root, outside: reject, invalid: root}
  - {name: weight, lower: 0.5, upper: 2.5}
  - {name: born, lower: 1900-01-01, upper: 2020-12-31, step: 7}
  - {name: seen, lower: 2020-01-01T00:00:00Z, upper: 2021-01-01 00:00:00}
  - {name: education, hierarchy: trees/education.csv, unknown: root}
  - name: country
    hierarchy:
      Any:
        Europe: [France, Spain]
        Other:
  - {name: sex, hierarchy: [f, m, 3], null: root}
sensitive: [occupation, {name: fare, bins: [0, 10, 20.5], type: number}, {name: illness}]
public: [vendor, {name: office, type: text}, {name: floor}]
"""
SHORT = "person: pid\nquasi_identifiers:\n  - {name: age, lower: 0, upper: 100}\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "schema.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(folder: Path, text: str) -> list[str]:
    """The lines of the error, without the folder."""
    with pytest.raises(ConfigError) as caught:
        load_schema(write(folder, text))
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_a_file_gives_the_same_schema_as_python(tmp_path: Path) -> None:
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "education.csv").write_text("Junior;School;*\nSenior;School;*\n")
    assert load_schema(write(tmp_path, WHOLE)) == Schema(
        person="pid",
        quasi_identifiers=[
            Numeric("age", lower=0, upper=100, step=5, null="root", outside="reject", invalid="root"),
            Numeric("weight", lower=0.5, upper=2.5),
            Numeric("born", lower=dt.date(1900, 1, 1), upper=dt.date(2020, 12, 31), step=7),
            Numeric("seen", lower=dt.datetime(2020, 1, 1, tzinfo=dt.UTC), upper=dt.datetime(2021, 1, 1)),
            Categorical(
                "education",
                hierarchy=Hierarchy.from_mapping({"*": {"School": ["Junior", "Senior"]}}),
                unknown="root",
            ),
            Categorical(
                "country", hierarchy=Hierarchy.from_mapping({"Any": [{"Europe": ["France", "Spain"]}, "Other"]})
            ),
            Categorical("sex", hierarchy=Hierarchy.flat(["f", "m", "3"]), null="root"),
        ],
        sensitive=["occupation", Sensitive("fare", bins=[0, 10, 20.5], type="number"), Sensitive("illness")],
        public=["vendor", Public("office", type="text"), "floor"],
    )  # fmt: skip


def test_the_integers_and_dates_of_a_file_stay_what_they_are(tmp_path: Path) -> None:
    text = (
        "person: null\nquasi_identifiers:\n  - {name: a, lower: 0, upper: 150}\n  - {name: b, lower: 0.0, upper: 150}\n"
    )
    whole, fractional = load_schema(write(tmp_path, text)).quasi_identifiers
    assert isinstance(whole, Numeric)
    assert isinstance(fractional, Numeric)
    assert whole.edges[1] == 2
    assert fractional.edges[1] == 1.5


def test_person_null_means_every_row_is_a_person(tmp_path: Path) -> None:
    assert load_schema(write(tmp_path, SHORT.replace("pid", "null"))).person is None


def test_a_person_is_never_guessed(tmp_path: Path) -> None:
    assert problems(tmp_path, SHORT.replace("person: pid\n", "")) == ["schema.yaml:1  person is missing"]


def test_the_path_may_be_text(tmp_path: Path) -> None:
    assert load_schema(str(write(tmp_path, SHORT))).columns == ("pid", "age")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{name: age, lowr: 0, upper: 1}", "quasi_identifiers[0].lowr is not a known key; did you mean lower?"),
        ("{name: age, hierachy: x.csv}", "quasi_identifiers[0].hierachy is not a known key; did you mean hierarchy?"),
        (
            "{name: age, zzz: 0}",
            "quasi_identifiers[0].zzz is not a known key; "
            "known here: name, lower, upper, step, null, outside, invalid, default, hierarchy, unknown",
        ),
        ("{name: age, unknown: root}", "quasi_identifiers[0].unknown is not a key of a numeric column"),
        ("{name: a, hierarchy: [x], lower: 0}", "quasi_identifiers[0].lower is not a key of a categorical column"),
        ("{lower: 0, upper: 1}", "quasi_identifiers[0].name is missing"),
        (
            "{name: age, lower: low, upper: 1}",
            "quasi_identifiers[0].lower must be a number, a date or a timestamp, got 'low'",
        ),
        ("{name: age, lower: yes, upper: 1}", "lower must be a number, a date or a timestamp, got True"),
        ("{name: age, lower: [1], upper: 1}", "lower must be a number, a date or a timestamp, got a list of 1"),
        ("{name: age, lower: 0, upper: 1, step: 1h}", "step must be a number (of days for dates, of seconds"),
        ("{name: age, lower: 0, upper: 1, null: drop}", "null must be 'reject' or 'root', got 'drop'"),
        ("{name: age, lower: 0, upper: 1, outside: x}", "outside must be 'clamp', 'reject' or 'root', got 'x'"),
        ("{name: 5, lower: 0, upper: 1}", "quasi_identifiers[0].name must be a column name (in quotes if"),
        ("{name: '', lower: 0, upper: 1}", "quasi_identifiers[0].name must be a column name"),
        ("{name: age, lower: 9, upper: 1}", "quasi_identifiers[0] cannot work: column 'age': lower must not be above"),
        ("{name: age, lower: 9}", "quasi_identifiers[0] cannot work: column 'age': give both lower and upper"),
        ("{name: a, hierarchy: 5}", "hierarchy must be a path, a nested mapping or a list of labels, got 5"),
        ("{name: a, hierarchy: }", "hierarchy must be a path, a nested mapping or a list of labels, got nothing"),
        ("{name: a, hierarchy: absent.csv}", "[0].hierarchy cannot work: cannot read hierarchy absent.csv"),
        ("{name: a, hierarchy: []}", "quasi_identifiers[0].hierarchy cannot work: hierarchy is empty"),
        ("{name: a, hierarchy: {x: [a], y: [b]}}", "quasi_identifiers[0].hierarchy cannot work: a hierarchy given"),
        ("{name: a, hierarchy: [yes]}", "quasi_identifiers[0].hierarchy[0] is not text in YAML: put the label in"),
        ("{name: a, hierarchy: {x: [a, ~]}}", "quasi_identifiers[0].hierarchy.x[1] is not text in YAML"),
        ("{name: a, hierarchy: {x: [2020-01-01]}}", "quasi_identifiers[0].hierarchy.x[0] is not text in YAML"),
        ("age", "quasi_identifiers[0] must be a mapping such as {name: age, lower: 0, upper: 100} or"),
    ],
)  # fmt: skip
def test_a_wrong_quasi_identifier_is_named_with_its_line(tmp_path: Path, entry: str, message: str) -> None:
    (line,) = problems(tmp_path, f"person: pid\nquasi_identifiers:\n  # a comment\n  - {entry}\n")
    assert line.startswith("schema.yaml:4  ")
    assert message in line


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("sensitiv: [x]", "schema.yaml:4  sensitiv is not a known key; did you mean sensitive?"),
        ("sensitive: x", "schema.yaml:4  sensitive must be a list, got 'x'"),
        ("sensitive: [5]", "schema.yaml:4  sensitive[0] must be a column name"),
        ("sensitive:\n  - {name: x, bin: [1]}", "schema.yaml:5  sensitive[0].bin is not a known key; did you"),
        ("sensitive:\n  - {name: x, bins: [1, a]}", "schema.yaml:5  sensitive[0].bins[1] must be a number, a date"),
        ("sensitive:\n  - {name: x, bins: [2, 1]}", "schema.yaml:5  sensitive[0] cannot work: column 'x': bins must"),
        ("public: [yes]", "schema.yaml:4  public[0] must be a column name (in quotes if YAML reads it as another type"),
        ("public: [age]", "schema.yaml:1  cannot work: column 'age' is declared twice"),
        ("public: [age_min]", "schema.yaml:1  cannot work: columns 'age_min' and 'age' would both be published as"),
        ("public: [a]\npublic: [b]", "schema.yaml:5  public is a duplicate key, first used in line 4"),
    ],
)  # fmt: skip
def test_a_wrong_section_is_named_with_its_line(tmp_path: Path, more: str, message: str) -> None:
    (line,) = problems(tmp_path, SHORT + more + "\n")
    assert line.startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]\n", "schema.yaml:1  must be a mapping, got a list of 1"),
        ("just text\n", "schema.yaml:1  must be a mapping, got 'just text'"),
        ("person: \nquasi_identifiers: []", "schema.yaml:1  cannot work: a schema needs at least one quasi-identifier"),
        ("person: p\nquasi_identifiers:\n", "schema.yaml:2  quasi_identifiers must be a list, got nothing"),
        ("person: p\n", "schema.yaml:1  quasi_identifiers is missing"),
        ("", "schema.yaml is empty"),
    ],
)  # fmt: skip
def test_a_file_of_another_shape_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    assert problems(tmp_path, text) == [message]


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        "persn: pid\nquasi_identifiers:\n  - {name: age, lower: x, upper: 1}\n"
        "  - {name: sex, hierarchy: [f], nul: root}\npublic: 5\n"
    )
    assert [line.split("  ")[0] for line in problems(tmp_path, text)] == [
        "schema.yaml:1", "schema.yaml:1", "schema.yaml:3", "schema.yaml:4", "schema.yaml:5",
    ]  # fmt: skip
    roles = "person: p\nquasi_identifiers:\n  - {name: a, lower: 2, upper: 1}\n  - {name: b, hierarchy: no.csv}\n"
    assert len(problems(tmp_path, roles)) == 2


def test_a_long_value_is_cut_in_the_message(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, SHORT.replace("lower: 0", f"lower: {'x' * 100}"))
    assert line.endswith("xxx...")


def test_a_schema_may_be_a_section_of_a_larger_file(tmp_path: Path) -> None:
    indented = "".join(f"  {line}\n" for line in SHORT.splitlines())
    document = read_document(write(tmp_path, f"source: x\nschema:\n{indented}"))
    assert isinstance(document.data, dict)
    assert schema_section(document, document.data["schema"], ("schema",)).columns == ("pid", "age")
    broken = read_document(write(tmp_path, f"source: x\nschema:\n{indented.replace('lower', 'lowr')}"))
    assert isinstance(broken.data, dict)
    with pytest.raises(ConfigError, match=r"schema\.yaml:5  schema\.quasi_identifiers\[0\]\.lowr .*did you mean lower"):
        schema_section(broken, broken.data["schema"], ("schema",))
