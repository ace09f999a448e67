"""Environment variables in a file: `${NAME}` stands for a variable, `$${` is a literal `${`.

This keeps secrets out of files. Values from the environment hide themselves in a repr and are masked in messages.
Names given on the command line are not secret.
"""

import re
from collections.abc import Mapping
from typing import Any

from castleguard.config.document import Place
from castleguard.config.problems import Problem
from castleguard.config.secrets import HIDDEN, FromEnvironment

_VARIABLE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SHORT = 4  # a shorter value is masked only as a whole word


class Variables:
    """The environment, and the values that a file took from it."""

    def __init__(self, environ: Mapping[str, str], known: Mapping[str, str] | None = None) -> None:
        """`known` variables may be shown; they take precedence over the environment."""
        self.problems: list[Problem] = []
        """Missing variables, and malformed ones."""
        self._environ = environ
        self._known = known or {}
        self._taken: set[str] = set()
        self._failed: set[Place] = set()

    def fill(self, data: Any, place: Place = ()) -> Any:
        """The data with its variables replaced. Keys are not changed."""
        if isinstance(data, dict):
            return {key: self.fill(value, (*place, key)) for key, value in data.items()}
        if isinstance(data, list):
            return [self.fill(value, (*place, at)) for at, value in enumerate(data)]
        return self._fill_text(data, place) if isinstance(data, str) and "${" in data else data

    def mask(self, sentence: str) -> str:
        """The sentence with values from the environment masked."""
        for value in sorted(self._taken, key=len, reverse=True):
            pattern = re.escape(value) if len(value) >= _SHORT else rf"(?<!\w){re.escape(value)}(?!\w)"
            sentence = re.sub(pattern, HIDDEN, sentence)
        return sentence

    def explains(self, place: Place) -> bool:
        """Whether a problem at this place is due to a variable."""
        return any(place[: len(failed)] == failed for failed in self._failed)

    def _fill_text(self, text: str, place: Place) -> str:
        parts: list[str] = []
        end, secret = 0, False
        for found in _VARIABLE.finditer(text):
            parts.append(text[end : found.start()])
            end = found.end()
            if found.group() == "$${":
                parts.append("${")
                continue
            if found.group(1) in self._known:
                parts.append(self._known[found.group(1)])
                continue
            parts.append(self._value(found.group(1), place))
            secret = True
        whole = "".join([*parts, text[end:]])
        if not secret:
            return whole
        self._take(whole)
        return FromEnvironment(whole)

    def _value(self, name: str | None, place: Place) -> str:
        if name is None or not _NAME.match(name):
            self._fail(place, "has a ${ that is not a variable like ${NAME}: write $${ for a literal ${")
            return ""
        value = self._environ.get(name)
        if value is None:
            self._fail(place, f"needs the environment variable {name}, which is not set")
            return ""
        self._take(value)
        return value

    def _take(self, value: str) -> None:
        self._taken |= {text for text in (value, repr(value)[1:-1]) if text}

    def _fail(self, place: Place, sentence: str) -> None:
        self.problems.append(Problem(place, sentence))
        self._failed.add(place)
