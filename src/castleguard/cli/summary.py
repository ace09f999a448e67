"""Closing summary of a run: the books of all rows, and the promise."""

from collections.abc import Sequence
from dataclasses import replace

from castleguard.algorithms.facts import NoiseError
from castleguard.books import Report
from castleguard.privacy.guarantee import Guarantee
from castleguard.release.emptiness import empty_output
from castleguard.telemetry.logs import LOG


def summary(report: Report, guarantee: Guarantee, *, malformed: int = 0, errors: Sequence[NoiseError] = ()) -> str:
    """The books and the promise as text. `errors`: what noise does to the values; the loss is the width of boxes."""
    books = books_table(report, malformed=malformed)
    if errors:
        moved = ", ".join(map(str, errors))
        books += f"\nnoise             on average, besides the loss: {moved}"
    return f"{books}\n\n{guarantee.paragraphs()}"


def books_table(report: Report, *, malformed: int = 0) -> str:
    """The outcome of all rows as a table. A malformed line counts as a rejected row."""
    reasons = {**report.rejected, "malformed line": malformed}
    rejected = {reason: count for reason, count in sorted(reasons.items()) if count}
    left_out = (
        ("sampled out", report.sampled_out),
        ("over budget", report.over_budget),
        ("handed over", report.handed_over),
        ("undecided", report.undecided),
    )
    lines = [
        ("rows in", _count(report.rows_in + malformed), ""),
        ("published", _count(report.published), _notes(report)),
        ("suppressed", _count(report.suppressed), ""),
        *((name, _count(count), "") for name, count in left_out if count),
        ("rejected", _count(sum(rejected.values())), ", ".join(f"{why} {n:,}" for why, n in rejected.items())),
    ]
    clamped = {column: count for column, count in sorted(report.clamped.items()) if count}
    if clamped:
        note = "values moved to the nearest bound: " + ", ".join(f"{column} {n:,}" for column, n in clamped.items())
        lines.append(("clamped", _count(sum(clamped.values())), note))
    if report.pending:
        lines.append(("pending", _count(report.pending), ""))
    if report.received:
        lines.append(("received", _count(report.received), "rows of other sites, published here"))
    lines += [
        ("groups", _count(report.groups), ""),
        ("information loss", "-" if report.information_loss is None else f"{report.information_loss:.4f}", ""),
        ("oldest wait", _count(report.oldest_wait), "arrivals"),
    ]
    width = max(len(value) for _, value, _ in lines)
    return "\n".join(f"{name:<18}{value:>{width}}  {note}".rstrip() for name, value, note in lines)


def warn_if_empty(report: Report, *, malformed: int = 0) -> None:
    """Log a warning with the reason if no row was published."""
    found = empty_output(replace(report, malformed=malformed))
    if found is not None:
        LOG.warning("%s", found)


def _notes(report: Report) -> str:
    """Rows published without a new group: at the root, or in an earlier box."""
    joined = f"{report.reused:,} ({report.reused / report.published:.0%})" if report.reused else ""
    notes = (f"{report.at_root:,} at the root" * bool(report.at_root), f"{joined} in earlier boxes" * bool(joined))
    return ", ".join(note for note in notes if note)


def _count(number: int) -> str:
    return f"{number:,}"
