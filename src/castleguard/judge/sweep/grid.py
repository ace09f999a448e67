"""Every combination of the given parameters, as a policy; and those that no policy accepts, with the reason."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from castleguard.algorithms.base import Policy
from castleguard.errors import PolicyError, SchemaError
from castleguard.schema.roles import Schema
from castleguard.stream import Anonymiser

Value = int | float | str
Parameters = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Setting:
    """One combination."""

    parameters: Parameters
    """Names and values, in the order in which they were given."""
    policy: Policy = field(repr=False, compare=False)
    claim: str = field(default="", compare=False)
    """What its epsilon protects, against what and for how long; empty: it claims no differential privacy."""

    @property
    def key(self) -> str:
        """The combination as one text, the same in every run."""
        return key_of(self.parameters)

    def value(self, name: str) -> Value:
        """The value of one parameter."""
        return dict(self.parameters)[name]

    def words(self, names: Iterable[str]) -> str:
        """The parameters of these names, for a reader: those that all settings have in common say nothing."""
        return in_words(self.parameters, names)


@dataclass(frozen=True)
class Refusal:
    """A combination that cannot be promised."""

    parameters: Parameters
    reason: str


@dataclass(frozen=True)
class Grid:
    """All combinations, in the order in which they were given: the last parameter changes fastest."""

    lists: Mapping[str, tuple[Value, ...]]
    settings: tuple[Setting, ...]
    refused: tuple[Refusal, ...]

    @property
    def varied(self) -> tuple[str, ...]:
        """The parameters with several values; if there are none, all."""
        return tuple(name for name, values in self.lists.items() if len(values) > 1) or tuple(self.lists)


def make_grid(lists: Mapping[str, Sequence[Value]], make: Callable[[dict[str, Value]], Policy], schema: Schema) -> Grid:
    """Combine the lists. `make` gives the policy of a combination, or raises PolicyError.

    Raises PolicyError if no combination is left.
    """
    settings, refused = [], []
    for values in product(*lists.values()):
        parameters: Parameters = tuple(zip(lists, values, strict=True))
        try:
            policy = make(dict(parameters))
            claim = _checked(policy, schema)
        except (PolicyError, SchemaError) as exc:
            refused.append(Refusal(parameters, str(exc)))
        else:
            settings.append(Setting(parameters, policy, claim))
    if not settings:
        raise PolicyError(f"no combination can be promised; the first of {len(refused)}: {refused[0].reason}")
    return Grid({name: tuple(values) for name, values in lists.items()}, tuple(settings), tuple(refused))


def key_of(parameters: Iterable[Sequence[object]]) -> str:
    """Parameters as one text."""
    return json.dumps([list(pair) for pair in parameters])


def in_words(parameters: Parameters, names: Iterable[str]) -> str:
    """Parameters as `k=10 l=2 delay=1000`."""
    chosen = set(names)
    return " ".join(f"{name}={shown(value)}" for name, value in parameters if name in chosen)


def shown(value: Value) -> str:
    """A parameter as it was typed."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _checked(policy: Policy, schema: Schema) -> str:
    """What it claims. Refuses what would fail with the first row, or what has no risk to weigh its loss against."""
    refused = policy.publication(schema).refused_by_sweep
    if refused is not None:
        raise PolicyError(refused)
    Anonymiser(schema, policy, seed=0)
    claim = policy.guarantee(schema, seeded=True).privacy
    return "" if claim is None else f"{claim.unit}, {claim.neighbours}, over {claim.horizon}"
