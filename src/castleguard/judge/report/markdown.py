"""Markdown tables."""

from collections.abc import Sequence


def row(cells: Sequence[str]) -> str:
    """Format one row; line breaks and vertical bars in cells are made safe.

    >>> row(["a|b", "two\\nlines"])
    '| a\\\\|b | two lines |'
    """
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """Format a table as lines; `right` aligns its columns to the right, for numbers."""
    return [row(titles), "|" + ("---:|" if right else "---|") * len(titles), *map(row, rows)]
