"""One file into another: a reader through a stream into a writer, whole or not at all.

What runs for longer than a file, with positions and checkpoints, is `job.py`.
"""

from collections.abc import Callable

from castleguard.connectors.base import Reader, Writer
from castleguard.stream import Anonymiser


def convert(
    reader: Reader,
    stream: Anonymiser,
    writer: Writer,
    *,
    now: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Carry a finite input through a stream into an output, to the end, and close both.

    `now` is when all of it arrives, for a policy that counts seconds. `progress` is called after every batch with its
    number of rows. Whatever goes wrong, an interruption included, the writer is aborted: its output appears whole or
    not at all.
    """
    try:
        for batch in reader:
            writer.write(stream.push(batch, now))
            if progress is not None:
                progress(batch.num_rows)
        writer.write(stream.finish(warn=False))  # the caller knows of malformed lines, too, and warns
        writer.close()
    except BaseException:
        writer.abort()
        raise
    finally:
        reader.close()
