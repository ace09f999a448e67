"""Columns inside nested JSON: `address[0].postalCode` is the postal code of the first address."""

import re
from collections.abc import Mapping
from typing import Any

_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+)\]")

Path = tuple[str | int, ...]
Fields = Mapping[str, str]
"""Paths by column."""


def read_path(text: str) -> Path:
    """The steps of a path. Raises ValueError.

    >>> read_path("address[0].postalCode")
    ('address', 0, 'postalCode')
    """
    steps: list[str | int] = []
    end = 0
    for found in _STEP.finditer(text):
        if found.start() != end:
            break
        steps.append(found[1] if found[1] is not None else int(found[2]))
        end = found.end()
    if not steps or end != len(text):
        raise ValueError(f"{text!r} is not a path such as address[0].postalCode")
    return tuple(steps)


def check_fields(fields: Fields, *, is_json: bool) -> None:
    """Raise ValueError for paths that cannot be read, or that have no effect."""
    if fields and not is_json:
        raise ValueError("fields has an effect on JSON only: delete it")
    for path in fields.values():
        read_path(path)


class Finder:
    """Takes declared columns out of objects."""

    def __init__(self, fields: Fields) -> None:
        self._paths = {name: read_path(path) for name, path in fields.items()}

    def flat(self, row: dict[str, Any]) -> dict[str, Any]:
        """The object with the columns that lie deeper added; a column without a value is left out."""
        found = dict(row)
        for name, path in self._paths.items():
            found.pop(name, None)
            value = _at(row, path)
            if value is not None:
                found[name] = value
        return found


def _at(value: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
        if value is None:
            return None
    return value
