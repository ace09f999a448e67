"""Tables small enough to compute their measures by hand."""

from typing import Any

import pyarrow as pa

from castleguard.judge.measure.predicates import Attribute
from castleguard.judge.measure.queries import Workload, attributes_of
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive

JOBS = Hierarchy.from_mapping({"Any": {"Care": ["Nurse", "Carer"], "Other": ["Cook", "Smith"]}})
SCHEMA = Schema(
    person=None,
    quasi_identifiers=[Numeric("age", lower=0, upper=100), Categorical("job", hierarchy=JOBS)],
    sensitive=[Sensitive("illness", values=["flu", "cold"])],
    public=["row"],
)
ORIGINAL: dict[str, list[Any]] = {
    "row": [1, 2, 3, 4],
    "age": [20, 25, 40, 60],
    "job": ["Nurse", "Carer", "Cook", "Nurse"],
    "illness": ["flu", "cold", "flu", "flu"],
}
PUBLISHED: dict[str, list[Any]] = {
    "row": [2, 1, 4, 3],
    "age_min": [20, 20, 40, 40],
    "age_max": [30, 30, 60, 60],
    "job": ["Care", "Care", "Any", "Any"],
    "illness": ["cold", "flu", "flu", "flu"],
}
LABELLED = Schema(
    person=None,
    quasi_identifiers=[
        Numeric("age", lower=0, upper=100, null="root"),
        Categorical("job", hierarchy=Hierarchy.from_mapping({"Any": {"Care": ["Nurse", "Carer"], "Other": ["Cook"]}})),
    ],
    sensitive=["ill"],
    public=["row"],
)
"""A schema whose column `ill` is learned."""


def attributes(
    published: dict[str, list[Any]] = PUBLISHED, original: dict[str, list[Any]] = ORIGINAL, schema: Schema = SCHEMA
) -> tuple[Attribute, ...]:
    return attributes_of(pa.table(published), pa.table(original), schema, Workload())
