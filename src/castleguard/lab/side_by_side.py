"""All methods side by side, on the same rows and with the same measures."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from castleguard.errors import CastleguardError, UsageError
from castleguard.lab.baselines.methods import METHODS
from castleguard.lab.harness import Measured, Method, Task, measure


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Outcome of one method."""

    method: Method
    measured: Measured | None = None
    refused: str = ""
    """Why it cannot do the task; empty if it can."""

    def figures(self) -> dict[str, object]:
        """All fields in a form that JSON can hold."""
        about: dict[str, object] = {"method": self.method.key, "promise": self.method.promise}
        if self.measured is None:
            return about | {"refused": self.refused}
        found = asdict(self.measured)
        found |= {"rows_per_second": self.measured.rows_per_second, "broken": self.measured.broken}
        return about | {name: _json_value(value) for name, value in found.items()}


def choose(keys: Sequence[str] = ()) -> tuple[Method, ...]:
    """Methods with these names, in the order of the table; all by default."""
    known = {method.key: method for method in METHODS}
    for key in keys:
        if key not in known:
            raise UsageError(f"there is no method {key!r}; there are {', '.join(known)}")
    return tuple(method for method in METHODS if not keys or method.key in keys)


def compare(task: Task, methods: Sequence[Method] = METHODS) -> Iterator[Compared]:
    """Run one method after another. A method that cannot do the task gives the reason, and the others still run."""
    for method in methods:
        try:
            outcome = method.publish(task)
        except CastleguardError as exc:
            yield Compared(method=method, refused=str(exc))
        else:
            yield Compared(method=method, measured=measure(outcome, task))


def _json_value(value: object) -> object:
    """JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
