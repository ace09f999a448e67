"""READ FIRST: the whole flow in one short loop.

    source -> stream -> sink

A source brings batches of rows (`connectors/base.py`). The stream takes them in and hands out what may be published by
now (`stream.py`: decode, engine, gate, encode). A sink takes that over (`connectors/base.py` again).
"""

from collections.abc import Callable

from castleguard.connectors.base import Sink, Source
from castleguard.stream import Anonymiser


def run(
    source: Source,
    stream: Anonymiser,
    sink: Sink,
    *,
    now: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Carry a finite source through a stream into a sink, to the end, and close both.

    `now` is when all of it arrives, for a policy that counts seconds. `progress` is called after every batch with its
    number of rows. Whatever goes wrong, an interruption included, the sink is aborted: its output appears whole or not
    at all.
    """
    try:
        for batch in source:
            sink.write(stream.push(batch, now))
            if progress is not None:
                progress(batch.num_rows)
        sink.write(stream.flush())
        sink.close()
    except BaseException:
        sink.abort()
        raise
    finally:
        source.close()
