"""No repr shows rows or secrets: reprs end up in logs and tracebacks."""

import pyarrow as pa

from castleguard.algorithms.stages import make_keys
from castleguard.checkpoint.codec import Record
from castleguard.runtime.segment import Segment
from castleguard.schema.batch_reader import Arrivals

SECRET = "S3CRET"


def test_no_repr_shows_a_value_or_a_key() -> None:
    table = pa.table({"name": [SECRET]})
    keys = make_keys(seed=1)
    segment = Segment()
    segment.add(table, None)
    segment.add_letters([SECRET.encode()])
    shown = [
        repr(Arrivals(table, {"name": [SECRET]}, typed=True)),
        repr(segment),
        repr(Record(facts={"name": SECRET}, blobs={"name": SECRET.encode()})),
    ]
    assert not any(SECRET in text for text in shown)
    assert not any(str(int(word)) in repr(keys) for word in (*keys.choices, *keys.noise))
