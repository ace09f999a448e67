"""What the agreements of both modes of DOCA share: calls with a flush in between, and an engine that takes them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from castleguard.algorithms.engine import Engine, Flags
from castleguard.schema.coded import CodedRows, Decisions
from tests.properties.choices import among
from tests.properties.streams import Step

FLUSH = Step(-1, 0.0)
Row = TypeVar("Row")


@st.composite
def steps_with_flushes(draw: st.DrawFn, rows: int, *, rarity: int) -> tuple[Step, ...]:
    """Calls with `rows` rows in total; one in `rarity` is a flush, and so is the last."""
    steps, left, now = [], rows, 0.0
    while left > 0:
        now += draw(among(0.0, 0.0, 0.5, 1.0))
        size = min(left, draw(st.integers(0, 30)))
        steps.append(FLUSH if draw(st.integers(0, rarity - 1)) == 0 else Step(size, now))
        left -= max(steps[-1].rows, 0)
    return (*steps, FLUSH)


def feed(
    new_engine: Callable[[], Engine],
    steps: Sequence[Step],
    rows: Sequence[Row],
    *,
    coded: Callable[[Sequence[Row]], tuple[CodedRows, Flags]],
    restart: bool,
) -> Iterator[Decisions]:
    """Push all rows in these calls, which end with a flush; with `restart`, a new engine is restored after each."""
    engine, arrivals = new_engine(), 0
    for step in steps:
        if step == FLUSH:
            yield engine.flush()
        elif step.rows == 0:
            yield engine.tick(step.now)
        else:
            batch, present = coded(rows[arrivals : arrivals + step.rows])
            arrivals += step.rows
            yield engine.push(batch, step.now, present)
        if restart:
            arrays = engine.snapshot()
            engine = new_engine()
            engine.restore(arrays)
    assert engine.pending == engine.open_clusters == 0
    assert engine.arrivals == engine.oldest == len(rows)
