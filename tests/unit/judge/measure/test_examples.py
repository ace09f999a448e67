"""Training examples: two features per attribute, and classes that both tables share."""

import pyarrow as pa
import pytest

from castleguard.errors import InputError, UsageError
from castleguard.judge.measure.examples import Classes, original_examples, published_examples
from castleguard.schema.roles import Schema
from castleguard.schema.sensitive import Sensitive
from tests.unit.judge.measure.made_up import LABELLED


def test_features_are_the_minimum_and_the_maximum_of_every_attribute() -> None:
    table = pa.table({"row": [1, 2], "age": [20, None], "job": ["Carer", "Cook"], "ill": ["yes", None]})
    shown = pa.table(
        {"row": [1, 2], "age_min": [10, 0], "age_max": [30, 100], "job": ["Care", "Any"], "ill": ["n", "yes"]}
    )
    classes = Classes(LABELLED, "ill")
    original = original_examples(table, LABELLED, classes)
    assert original.features[0].tolist() == [20, 20, 1, 1]
    assert original.labels.tolist() == [0, -1]
    assert original.complete.tolist() == [True, False]
    examples = published_examples(shown, LABELLED, classes)
    assert examples.features.tolist() == [[10, 30, 0, 1], [0, 100, 0, 2]]
    assert examples.labels.tolist() == [1, 0]


def test_label_with_bins_has_a_class_per_bin_also_where_the_bin_itself_was_published() -> None:
    schema = Schema(
        person=None, quasi_identifiers=LABELLED.quasi_identifiers, sensitive=[Sensitive("cost", bins=[10, 20])]
    )
    classes = Classes(schema, "cost")
    assert classes.of(pa.table({"cost": [5.0, 10.0, 15.0, 25.0, None]}), "original").tolist() == [0, 1, 1, 2, -1]
    assert classes.of(pa.table({"cost": ["[10, 20)", "< 10", "7", "99.5"]}), "published").tolist() == [1, 0, 0, 2]


def test_file_of_text_has_the_same_classes() -> None:
    classes = Classes(LABELLED, "ill")
    assert classes.of(pa.table({"ill": [0, 1, 0]}), "original").tolist() == [0, 1, 0]
    assert classes.of(pa.table({"ill": ["1.0", "0", " 0"]}), "published").tolist() == [1, 0, 0]


def test_label_must_be_a_declared_category() -> None:
    with pytest.raises(UsageError, match="sensitive or public column"):
        Classes(LABELLED, "age")
    with pytest.raises(UsageError, match="more than 50 values"):
        Classes(LABELLED, "row").of(pa.table({"row": range(51)}), "original")
    with pytest.raises(InputError, match="the published table has no column 'ill'"):
        Classes(LABELLED, "ill").of(pa.table({"row": [1]}), "published")
