"""Streams on which engine and transcription once disagreed, kept as examples."""

import numpy as np

from castleguard.algorithms.castle.policy import Castle, Reading
from castleguard.privacy.closeness import Closeness
from castleguard.schema.coded import CodedRows
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from tests.properties.streams import Step, Stream, spread_hashes
from tests.properties.test_castle_agreement import check_agreement


def test_pairs_of_a_box_outlive_the_entry_that_is_replaced_by_an_equal_box() -> None:
    """The engine forgot what was published in a box when an entry with the same box replaced the last one, and judged
    closeness without it.
    """
    heights = np.array([
        -2.5, -2.1875, -2.0, -1.875, -1.25, -0.9375, -0.8333333333333335, -0.3125,
        0.0, 0.625, 0.9375, 1.0, 1.25, 1.5625, 1.875, 2.5,
    ])  # fmt: skip
    persons = np.array([0, 1, 2, 5, 6, 14, 15, 17, 21, 24, 27, 29, 30, 36])
    rows = CodedRows(
        quasi=np.stack(
            [
                numbers("000000000100111000010100010010110000000001001000000000100000001000010000"),
                numbers("002121000003110000000100230010200000000100001020000100030210000000000000"),
                heights[numbers("ee0c000000024d10000a01719e0050e90000f0ba0040100b100300050400008006000003")],
            ],
            axis=1,
        ),
        person=spread_hashes(
            persons[numbers("00010200030d41a00b0181905030a0010000c000950000710005c0190065001000100000")]
        ),
        sensitive=numbers("221200212232230010322111003032000000000000001010000032210100002000000000")[:, None],
        to_root=np.zeros(72, dtype=np.bool_),
    )
    schema = Schema(
        person="p",
        quasi_identifiers=[
            Numeric("q0", lower=0, upper=1, step=1),
            Categorical("q1", hierarchy=Hierarchy.from_mapping({"all": ["a", "b", {"c": ["d", "e"]}]})),
            Numeric("q2", lower=-2.5, upper=2.5, step=0.7),
        ],
        sensitive=[Sensitive("s0", hierarchy=Hierarchy.flat(["x", "y"]))],
    )
    policy = Castle(
        k=2,
        delay=8,
        max_clusters=3,
        loss_window=5,
        max_reusable=1,
        reusable_age=13,
        suppression="drop",
        closeness=Closeness(t=0.1, distance="equal"),
        reading=Reading(
            tie_break="oldest",
            containment="interval",
            admission="le",
            representatives="balanced",
            merge="diversity_aware",
            first_threshold=0.0,
        ),
    )
    check_agreement(Stream(schema, policy, np.zeros(8, dtype=np.uint32), rows, (Step(72, 0.0),)))


def numbers(digits: str) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The digits of a text, to base 36."""
    return np.array([int(digit, 36) for digit in digits], dtype=np.int64)
