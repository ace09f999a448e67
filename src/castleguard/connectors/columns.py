"""Whether an input has the columns that were declared: asked once, before the first row is read."""

import difflib
from collections.abc import Collection, Sequence

from castleguard.errors import InputError, SchemaError


def require_columns(declared: Sequence[str], present: Sequence[str], where: str, hint: str = "") -> None:
    """Raise SchemaError if a declared column is missing in `where`, InputError if it is there twice."""
    for name in declared:
        if name not in present:
            raise SchemaError(f"{where} has no column {name!r}{_suggestion(name, present)}{hint}")
        if list(present).count(name) > 1:
            raise InputError(f"{where} has two columns named {name!r}: rename one of them")


def _suggestion(name: str, present: Collection[str]) -> str:
    near = difflib.get_close_matches(name, present, n=1)
    return f", did you mean {near[0]!r}?" if near else f" (it has {len(present)} columns)"
