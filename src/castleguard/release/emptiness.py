"""The warning at the end of a stream that published nothing: what became of its rows, and what to do about it.

An empty output looks like success to a script. So whatever ends a stream asks here, and logs the sentence.
"""

from castleguard.books import Books
from castleguard.telemetry.logs import LOG


def warn_at_end(books: Books, *, dropped: int) -> None:
    """Log that rows of an open window were dropped, or that rows came in and none was ever published."""
    if dropped:
        LOG.warning(
            "%d rows of a window that has not ended were dropped, because presence is promised: tick the stream at the "
            "end of the window before the flush, or finish it if its input is complete",
            dropped,
        )
    elif books.rows_in and (found := empty_output(books)) is not None:
        LOG.warning("%s", found)


def empty_output(books: Books) -> str | None:
    """Why nothing was published, in one line; None if something was, or still may be."""
    if books.published or books.received or books.handed_over or books.pending:
        return None
    rows = books.rows_in + books.malformed
    if rows == 0:
        return "nothing was published: no rows were read"
    reasons = {**books.rejected, "malformed line": books.malformed}
    rejected = {reason: count for reason, count in sorted(reasons.items()) if count}
    if sum(rejected.values()) == rows:
        found = ", ".join(f"{reason} {count:,}" for reason, count in rejected.items())
        return f"nothing was published: all {rows:,} rows were rejected ({found}). Check the schema against the data"
    if books.gate_refused and books.gate_refused == books.suppressed:
        return (
            f"nothing was published: the gate refused all {books.gate_refused:,} rows that the engine would have "
            f"published. No group has what the policy promises: ask for less (k, l, t), or use mode='strict'"
        )
    others = (
        ("suppressed", books.suppressed),
        ("sampled out", books.sampled_out),
        ("over budget", books.over_budget),
        ("undecided", books.undecided),
    )
    found = ", ".join(
        [
            *(f"{count:,} {name}" for name, count in others if count),
            *(f"{count:,} rejected for {reason}" for reason, count in rejected.items()),
        ]
    )
    return (
        f"nothing was published of {rows:,} rows ({found}): too few persons or values came together. Ask for less "
        f"(k, l, t), allow a longer delay, or bring more rows"
    )
