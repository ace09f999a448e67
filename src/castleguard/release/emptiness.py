"""The warning at the end of a stream that published nothing: what became of its rows, and what to do about it.

An empty output looks like success to a script. So whatever ends a stream asks here, and logs the sentence.
"""

from castleguard.release.report import Report


def empty_output(report: Report, *, malformed: int = 0) -> str | None:
    """Why nothing was published, in one line; None if something was, or still may be.

    `malformed` lines never became rows: the source counted them.
    """
    if report.published or report.received or report.handed_over or report.pending:
        return None
    rows = report.rows_in + malformed
    if rows == 0:
        return "nothing was published: no rows were read"
    reasons = {**report.rejected, "malformed line": malformed}
    rejected = {reason: count for reason, count in sorted(reasons.items()) if count}
    if sum(rejected.values()) == rows:
        found = ", ".join(f"{reason} {count:,}" for reason, count in rejected.items())
        return f"nothing was published: all {rows:,} rows were rejected ({found}). Check the schema against the data"
    if report.gate_refused and report.gate_refused == report.suppressed:
        return (
            f"nothing was published: the gate refused all {report.gate_refused:,} rows that the engine would have "
            f"published. No group has what the policy promises: ask for less (k, l, t), or use mode='strict'"
        )
    others = (
        ("suppressed", report.suppressed),
        ("sampled out", report.sampled_out),
        ("over budget", report.over_budget),
        ("undecided", report.undecided),
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
