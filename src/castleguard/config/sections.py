"""Dataclasses as sections of a file: the fields are the keys, with help for editors.

Policies and connector options are such dataclasses and know nothing of files; this module turns their fields into
pydantic models, so that parameters are listed once. The help of policy parameters is declared
(`privacy/parameter_fields.py`); for connector options it is the docstring below the field.
"""

import dataclasses
import os
import types
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, create_model
from pydantic.functional_validators import BeforeValidator
from pydantic_core import PydanticCustomError

from castleguard.config.docstrings import field_docstrings, summary
from castleguard.config.document import Place
from castleguard.config.expected import Entry, Flag, Number, Plain, Seconds, Text, Whole, expect
from castleguard.config.problems import KnownKeys, Problem
from castleguard.config.secrets import FromEnvironment
from castleguard.errors import CastleguardError
from castleguard.privacy.parameter_fields import Declared, parameters_of

_LEAVES: dict[object, tuple[Any, str]] = {
    bool: (Flag, "true or false"),
    int: (Whole, "a whole number"),
    float: (Number, "a number"),
    str: (Text, "text"),
    Path: (Annotated[Path, Field(strict=False), expect("a path")], "a path"),
}


class Section(Entry):
    """The keys of a dataclass. It gets only the keys that were given, and has its own defaults."""

    model_config = ConfigDict(protected_namespaces=())

    builds: ClassVar[type]
    below: ClassVar[dict[str, "type[Section]"]]
    """Fields that are themselves sections."""

    def build(self, place: Place, problems: list[Problem], folder: Path) -> Any:
        """The dataclass; None if it has problems, which are appended. Paths are relative to `folder`."""
        given = {name: getattr(self, f"{name}_") for name in self.names() if f"{name}_" in self.model_fields_set}
        known = len(problems)
        for name, value in given.items():
            if isinstance(value, Section):
                given[name] = value.build((*place, name), problems, folder)
            elif isinstance(value, Path) or (name == "path" and isinstance(value, str)):
                given[name] = _inside(folder, value)
        if len(problems) > known:
            return None
        try:
            return self.builds(**given)
        except (CastleguardError, TypeError, ValueError) as exc:  # the latter two from connectors of plug-ins
            problems.append(_problem(place, str(exc), self.names()))
        return None

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The keys."""
        return tuple(str(field.alias) for field in cls.model_fields.values())

    @classmethod
    def known_keys(cls) -> KnownKeys:
        """The keys of the section and of those below it."""
        known: dict[tuple[str, ...], tuple[str, ...]] = {(): cls.names()}
        for name, section in cls.below.items():
            known |= {(name, *place): keys for place, keys in section.known_keys().items()}
        return known


def options_model(cls: type) -> type[Section]:
    """The section for the options of a connector: every float may be a duration."""
    hints = get_type_hints(cls)
    return section_model(cls, tuple(name for name, hint in hints.items() if hint in (float, float | None)))


@cache
def section_model(cls: type, seconds: tuple[str, ...] = ()) -> type[Section]:
    """The section for a dataclass; the fields in `seconds` may be durations."""
    hints = get_type_hints(cls)
    declared = {each.name: each.declared for each in parameters_of(cls)}
    help_texts = {} if all(about.help for about in declared.values()) else field_docstrings(cls)
    definitions: dict[str, Any] = {}
    below: dict[str, type[Section]] = {}
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        shape, _ = _shape(hints[field.name])
        about = declared[field.name]
        if field.name in seconds or about.unit == "seconds":
            shape = Seconds | None if type(None) in get_args(hints[field.name]) else Seconds
        for part in (shape, *get_args(shape)):
            if isinstance(part, type) and issubclass(part, Section):
                below[field.name] = part
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        # Only for display, if JSON can hold it: the dataclass has its own default.
        shown = field.default if isinstance(field.default, str | int | float) else None
        # With an underscore, because keys may clash with attributes of every model, such as `schema` and `copy`.
        definitions[f"{field.name}_"] = (
            shape,
            Field(
                ... if required else shown,
                alias=field.name,
                description=about.help or help_texts.get(field.name),
                json_schema_extra=_bounds(about) or None,
            ),
        )
    model = create_model(cls.__name__, __base__=Section, __doc__=summary(cls), **definitions)
    model.builds, model.below = cls, below
    return model


def _bounds(about: Declared) -> dict[str, Any]:
    """Bounds for editors. The dataclass checks its own bounds, with better messages."""
    bounds = {
        "minimum": about.least,
        "exclusiveMinimum": about.above,
        "maximum": about.most,
        "exclusiveMaximum": about.below,
    }
    return {key: bound for key, bound in bounds.items() if bound is not None}


def _shape(annotation: Any) -> tuple[Any, str]:
    """The type that pydantic checks for a field, and its description."""
    if isinstance(annotation, type) and annotation in _LEAVES:
        return _LEAVES[annotation]
    if annotation is Any:
        return Any, "a value"
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return section_model(annotation), "a mapping"
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(inner[0])
    if origin is Literal:
        return Annotated[annotation, Plain], " or ".join(map(repr, inner))
    if origin in (Union, types.UnionType):
        return _union([part for part in inner if part is not type(None)], optional=type(None) in inner)
    if origin in (tuple, list, Sequence, set, frozenset):
        return _sequence(origin, inner)
    if origin in (dict, Mapping):
        key: Any = Any if inner[0] is Any else str
        value: Any = _shape(inner[1])[0]
        return dict[key, value], "a mapping"
    return Annotated[annotation, Field(strict=False)], "a value"


def _union(parts: list[Any], *, optional: bool) -> tuple[Any, str]:
    shapes = [_shape(part) for part in parts]
    words = " or ".join(words for _, words in shapes)
    shape = shapes[0][0]
    if len(shapes) > 1:
        shape = Annotated[Union[tuple(shape for shape, _ in shapes)], expect(words)]  # noqa: UP007
    return (shape | None if optional else shape), words


def _sequence(origin: Any, inner: tuple[Any, ...]) -> tuple[Any, str]:
    """A list in the file, converted to the collection type of the dataclass."""
    item: Any = _shape(inner[0])[0]
    if origin in (tuple, Sequence):
        return Annotated[tuple[item, ...], BeforeValidator(_listed), Field(strict=False)], "a list"
    return Annotated[origin[item], BeforeValidator(_listed), Field(strict=False)], "a list"


def _listed(value: Any) -> Any:
    """Refuse text, which pydantic would split into characters."""
    if not isinstance(value, list):
        raise PydanticCustomError("expected", "must be a list")
    return value


def _inside(folder: Path, value: Path | str) -> Path | str:
    if isinstance(value, Path):
        return folder / value
    # As text: a trailing slash and the stars of a pattern must survive.
    joined = os.path.join(folder, value)
    return FromEnvironment(joined) if isinstance(value, FromEnvironment) else joined


def _problem(place: Place, message: str, keys: Sequence[str]) -> Problem:
    """A dataclass's error as a problem; a message that begins with a key's name is about that key."""
    first, _, rest = message.partition(" ")
    return Problem((*place, first), rest) if first in keys else Problem(place, f"cannot work: {message}")
