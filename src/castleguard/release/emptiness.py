"""Warning at the end of a stream that published nothing: what happened to its rows, and what to do about it.

Without it an empty output would look like success to a script.
"""

from castleguard.books import Books
from castleguard.telemetry.logs import LOG


def warn_at_end(books: Books, *, dropped: int) -> None:
    """Log a warning if rows of an open window were dropped, or if rows arrived and none was published."""
    if dropped:
        LOG.warning(
            "%d rows of a window that has not ended were dropped, because presence is promised: tick the stream at the "
            "end of the window before the flush, or finish it if its input is complete",
            dropped,
        )
    elif books.rows_in and (found := empty_output(books)) is not None:
        LOG.warning("%s", found)


def empty_output(books: Books) -> str | None:
    """Explain in one line why nothing was published; None if rows were published or are pending."""
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
            f"published. No group meets the policy's criteria: lower k or l, raise t, or use mode='strict'"
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
        f"nothing was published from {rows:,} rows ({found}): no group had enough persons or values. Lower k or l, "
        f"raise t, allow a longer delay, or add rows"
    )
