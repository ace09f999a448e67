"""Tables of a Markdown page."""

from collections.abc import Sequence


def row(cells: Sequence[str]) -> str:
    """One row. A cell is kept on its line and in its column.

    >>> row(["a|b", "two\\nlines"])
    '| a\\\\|b | two lines |'
    """
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """A whole table, line by line; `right` aligns its columns to the right, for numbers."""
    return [row(titles), "|" + ("---:|" if right else "---|") * len(titles), *map(row, rows)]
