"""Categories as leaf numbers."""

from decimal import Decimal

import pyarrow as pa
import pytest

from castleguard.schema.categories import read_leaves
from castleguard.schema.coded import REASONS
from castleguard.schema.column import FINE

LEAVES = pa.array(["3", "4", "Never married", "true", "café", "2.5", "2020-01-01"], pa.large_string())


def shown(array: pa.Array) -> list[float | str]:
    column = read_leaves(array, LEAVES)
    return [
        value if problem == FINE else REASONS[problem]
        for value, problem in zip(column.values.tolist(), column.problem.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(["3", "4", "Never married", "café"]), [0, 1, 2, 4]),
        (pa.array([" 3", "4\t", "  Never married "]), [0, 1, 2]),
        (pa.array(["", "  ", None, "never married", "Nevermarried", "*"]), ["null"] * 3 + ["unknown"] * 3),
        (pa.array([3, 4, 5, None]), [0, 1, "unknown", "null"]),
        (pa.array([3, 4], pa.uint8()), [0, 1]),
        (pa.array([3.0, 2.5, None, float("nan"), float("inf")]), [0, 5, "null", "unknown", "unknown"]),
        (pa.array([3.0, 2.5], pa.float32()), [0, 5]),
        (pa.array([Decimal("3.00"), Decimal("2.5")]), [0, 5]),
        (pa.array([True, False, None]), [3, "unknown", "null"]),
        (pa.array([18262], pa.date32()), [6]),
        (pa.array([b"3", None]), [0, "null"]),
        (pa.array([["3"], None]), ["unknown", "null"]),
        (pa.array([None, None]), ["null", "null"]),
        (pa.array(["3", "4"], pa.large_string()), [0, 1]),
        (pa.array(["3", "4"], pa.string_view()), [0, 1]),
        (pa.array(["x", "4", "3"])[1:], [1, 0]),
        (pa.array([], pa.string()), []),
    ],
)
def test_every_arrow_type_is_compared_as_text(array: pa.Array, expected: list[object]) -> None:
    assert shown(array) == expected
