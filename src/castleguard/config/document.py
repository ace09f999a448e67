"""A YAML file as plain data, with the line of every part.

The only module that reads YAML. It keeps line numbers for error messages and refuses duplicate keys. Keys are always
text, so `null: root` has the key "null". The expanded size is bounded, because a file may be hostile.
"""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from castleguard.errors import ConfigError, Mistake

LARGEST = 250_000  # keys, list entries and values, including those repeated by aliases
DEEPEST = 100

Place = tuple[str | int, ...]  # keys and list indices from the top of the file


@dataclass(frozen=True)
class Document:
    """A parsed file."""

    path: Path
    data: object
    lines: dict[Place, int]
    """Line of every key, list entry and value; the top level is ()."""

    def line(self, place: Place) -> int:
        """Line of a place, or of its nearest enclosing place."""
        while place not in self.lines:
            place = place[:-1]
        return self.lines[place]

    def where(self, place: Place) -> str:
        """File and line of a place: "schema.yaml:14"."""
        return f"{self.path}:{self.line(place)}"


def spell(place: Place) -> str:
    """A place in dotted form.

    >>> spell(("quasi_identifiers", 0, "lower"))
    'quasi_identifiers[0].lower'
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def read_document(path: str | Path) -> Document:
    """Read one YAML document; raises ConfigError with file and line."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} cannot be read: it is not UTF-8 text") from exc
    return parse_document(text, path)


def parse_document(text: str, path: Path) -> Document:
    """Parse one YAML document; raises ConfigError with `path` and line."""
    with _translated(path):
        loader = yaml.SafeLoader(text)
    lines: dict[Place, int] = {}
    try:
        with _translated(path, text=text):
            top = loader.get_single_node()
        if top is None:
            raise ConfigError(f"{path} is empty")
        data = _Reader(path, loader, lines).read(top, ())
    finally:
        loader.dispose()
    return Document(path, data, lines)


class _Reader:
    """Walks the nodes of one file."""

    def __init__(self, path: Path, loader: yaml.SafeLoader, lines: dict[Place, int]) -> None:
        self._path = path
        self._loader = loader
        self._lines = lines
        self._open: list[yaml.Node] = []
        self._left = LARGEST

    def read(self, node: yaml.Node, place: Place) -> object:
        line = node.start_mark.line + 1
        self._lines.setdefault(place, line)
        self._left -= 1
        if self._left < 0:
            raise ConfigError(
                Mistake(f"the file is too large: more than {LARGEST:,} entries", where=f"{self._path}:{line}")
            )
        if len(place) > DEEPEST:
            raise ConfigError(
                Mistake(f"the file is nested too deeply: more than {DEEPEST} levels", where=f"{self._path}:{line}")
            )
        if node in self._open:
            raise ConfigError(Mistake(f"{spell(place)} contains itself", where=f"{self._path}:{self._lines[place]}"))
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._read_mapping(node, place)
            if isinstance(node, yaml.SequenceNode):
                return [self.read(item, (*place, index)) for index, item in enumerate(node.value)]
            with _translated(self._path, line):
                return _plain(self._loader.construct_object(node))
        finally:
            self._open.pop()

    def _read_mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, object]:
        mapping: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(Mistake("keys must be plain text", where=f"{self._path}:{line}"))
            with _translated(self._path, line):
                key = str(_plain(key_node.value))
            inside = (*place, key)
            if key in mapping:
                raise ConfigError(
                    Mistake(
                        f"is a duplicate key, first used in line {self._lines[inside]}: delete one of them",
                        where=f"{self._path}:{line}",
                        key=spell(inside),
                    )
                )
            self._lines[inside] = line
            mapping[key] = self.read(value_node, inside)
        return mapping


def _plain(value: object) -> object:
    """Return the value if it is plain data; raises ValueError otherwise."""
    if value is not None and not isinstance(value, str | bool | int | float | dt.date):
        raise ValueError(f"the type {type(value).__name__} is not supported")
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("it contains a null character")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("it contains a lone surrogate") from None
    return value


@contextmanager
def _translated(path: Path, line: int | None = None, text: str = "") -> Iterator[None]:
    """Translate PyYAML's errors into a single line; `text` is the file, searched for common mistakes."""
    try:
        yield
    except yaml.MarkedYAMLError as exc:
        if exc.problem_mark is not None:
            line = exc.problem_mark.line + 1
        written = text.split("\n")[(line or 1) - 1 : line or 1]
        hint = '; inside {...} a variable needs quotes: "${NAME}"' if any("${" in part for part in written) else ""
        raise ConfigError(
            Mistake(f"invalid YAML: {exc.problem or exc.context}{hint}", where=f"{path}:{line or 1}")
        ) from exc
    except yaml.YAMLError as exc:
        raise ConfigError(f"{path} is not valid YAML: {str(exc).splitlines()[0]}") from exc
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply: more than {DEEPEST} levels") from None
    except ValueError as exc:
        raise ConfigError(Mistake(f"invalid value: {exc}", where=f"{path}:{line or 1}")) from exc
    except (ArithmeticError, AttributeError, LookupError, TypeError) as exc:  # from PyYAML, for a tag that does not fit
        raise ConfigError(Mistake("invalid value: it does not match its tag", where=f"{path}:{line or 1}")) from exc
