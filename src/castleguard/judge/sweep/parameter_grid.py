"""All combinations of the given parameters, as policies, and the refused ones with the reason."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from castleguard.algorithms.policy import Policy
from castleguard.errors import PolicyError, SchemaError
from castleguard.schema.roles import Schema
from castleguard.stream import Anonymiser

Value = int | float | str
Parameters = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Setting:
    """One combination of parameters."""

    parameters: Parameters
    """Names and values, in the given order."""
    policy: Policy = field(repr=False, compare=False)
    claim: str = field(default="", compare=False)
    """Unit, neighbours and horizon of its epsilon; empty without a claim of differential privacy."""

    @property
    def key(self) -> str:
        """Key of the combination, the same in every run."""
        return key_of(self.parameters)

    def value(self, name: str) -> Value:
        """Value of one parameter."""
        return dict(self.parameters)[name]

    def words(self, names: Iterable[str]) -> str:
        """Format the parameters of these names."""
        return in_words(self.parameters, names)


@dataclass(frozen=True)
class Refusal:
    """A refused combination."""

    parameters: Parameters
    reason: str


@dataclass(frozen=True)
class Grid:
    """All combinations, in the given order; the last parameter changes fastest."""

    lists: Mapping[str, tuple[Value, ...]]
    settings: tuple[Setting, ...]
    refused: tuple[Refusal, ...]

    @property
    def varied(self) -> tuple[str, ...]:
        """Parameters with several values; all parameters if none has several."""
        return tuple(name for name, values in self.lists.items() if len(values) > 1) or tuple(self.lists)


def make_grid(lists: Mapping[str, Sequence[Value]], make: Callable[[dict[str, Value]], Policy], schema: Schema) -> Grid:
    """Combine the lists. `make` returns the policy of a combination, or raises PolicyError.

    Raises PolicyError if every combination is refused.
    """
    settings, refused = [], []
    for values in product(*lists.values()):
        parameters: Parameters = tuple(zip(lists, values, strict=True))
        try:
            policy = make(dict(parameters))
            claim = _check(policy, schema)
        except (PolicyError, SchemaError) as exc:
            refused.append(Refusal(parameters, str(exc)))
        else:
            settings.append(Setting(parameters, policy, claim))
    if not settings:
        raise PolicyError(f"all {len(refused)} combinations are refused; the first one: {refused[0].reason}")
    return Grid({name: tuple(values) for name, values in lists.items()}, tuple(settings), tuple(refused))


def key_of(parameters: Iterable[Sequence[object]]) -> str:
    """Key of parameters."""
    return json.dumps([list(pair) for pair in parameters])


def in_words(parameters: Parameters, names: Iterable[str]) -> str:
    """Format parameters as `k=10 l=2 delay=1000`."""
    chosen = set(names)
    return " ".join(f"{name}={shown(value)}" for name, value in parameters if name in chosen)


def shown(value: Value) -> str:
    """Format a parameter value."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _check(policy: Policy, schema: Schema) -> str:
    """Claim of a policy. Refuses policies that would fail on the first row, or that have no risk to compare."""
    refused = policy.publication(schema).refused_by_sweep
    if refused is not None:
        raise PolicyError(refused)
    Anonymiser(schema, policy, seed=0)
    claim = policy.guarantee(schema, seeded=True).privacy
    return "" if claim is None else f"{claim.unit}, {claim.neighbours}, over {claim.horizon}"
