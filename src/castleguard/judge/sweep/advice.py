"""Recommend a setting: the knee of the Pareto set within the limits, and the effect of changing each parameter."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from castleguard.errors import PolicyError
from castleguard.judge.sweep.parameter_grid import Grid, Value, key_of, shown
from castleguard.judge.sweep.weighing import Weighed, distances_to_ideal, pareto

_ROWS_PER_DELAY = 10  # in a shorter sample, start and end of the stream dominate


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Upper limits; None for no limit."""

    loss: float | None = None
    risk: float | None = None


@dataclass(frozen=True)
class Advice:
    """Recommended setting, by its index among the outcomes, with reasons."""

    chosen: int
    met: bool
    """Whether it meets the limits."""
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]


def advise(weighed: Weighed, grid: Grid, limits: Limits) -> Advice:
    """Choose a setting and explain the choice."""
    candidates = np.array(_candidates(weighed))
    if not candidates.size:
        raise PolicyError(
            "no setting publishes any row: use a smaller k or l, a longer delay, a larger sample, or a larger epsilon"
        )
    fitting = [at for at in candidates if _excess(weighed, limits, int(at)) <= 0]
    if fitting:
        # Scale by all candidates: a limit excludes some of them, but must not change the scale.
        distance = dict(zip(candidates.tolist(), distances_to_ideal(weighed.points[candidates]), strict=True))
        chosen = min((int(at) for at in fitting), key=lambda at: (distance[at], at))
    else:
        chosen = min((int(at) for at in candidates), key=lambda at: (_excess(weighed, limits, at), at))
    sentences = (_opening(weighed, grid, limits, chosen, bool(fitting)), *_steps(weighed, grid, chosen))
    return Advice(chosen, bool(fitting), sentences, tuple(_warnings(weighed, grid, chosen)))


def number(value: float) -> str:
    """Format a figure with enough digits to compare it: 0.043, 0.00012, 12.50, 1,234."""
    if value == 0 or 0.001 <= abs(value) < 1:
        return f"{value:.3f}"
    if abs(value) < 1:
        return f"{value:.2g}"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"


def _candidates(weighed: Weighed) -> list[int]:
    """Pareto set without settings whose figures are misleading, unless no others are left.

    Misleading are paper mode, whose weaknesses the figures do not show, and a delta above 1 in all rows, which allows
    exposing a person. A setting that publishes nothing has no risk and is never a candidate.
    """
    found = [at for at in weighed.best if weighed.outcomes[at].figures.published]
    strict = [
        at for at in range(len(weighed.outcomes)) if _strict(weighed, at) and weighed.outcomes[at].figures.published
    ]
    if strict:
        found = [at for at, best in zip(strict, pareto(weighed.points[strict]), strict=True) if best]
    return [at for at in found if _sound(weighed, at)] or found


def _strict(weighed: Weighed, at: int) -> bool:
    return weighed.outcomes[at].setting.policy.strict


def _sound(weighed: Weighed, at: int) -> bool:
    return weighed.delta(at) <= 1 / weighed.outcomes[at].figures.rows


def _excess(weighed: Weighed, limits: Limits, at: int) -> float:
    """Largest relative excess over a limit; 0 or less if all limits are met."""
    given = ((weighed.loss(at), limits.loss), (weighed.risk(at), limits.risk))
    return max(((value - limit) / max(limit, 1e-12) for value, limit in given if limit is not None), default=0.0)


def _opening(weighed: Weighed, grid: Grid, limits: Limits, at: int, fits: bool) -> str:
    words = weighed.outcomes[at].setting.words(grid.varied)
    figures = f"loss {number(weighed.loss(at))}, {weighed.risk_name} {number(weighed.risk(at))}"
    options = [
        f"--max-{name} {limit:g}" for name, limit in (("loss", limits.loss), ("risk", limits.risk)) if limit is not None
    ]
    if not options:
        return f"Take {words}: {figures}. It is the setting of the Pareto set nearest to the ideal."
    if fits:
        return f"Take {words}: {figures}. It is the setting nearest to the ideal that meets {' and '.join(options)}."
    which = f"No setting meets both {' and '.join(options)}" if len(options) > 1 else f"No setting meets {options[0]}"
    return f"{which}. The closest is {words}: {figures}."


def _steps(weighed: Weighed, grid: Grid, at: int) -> Iterator[str]:
    """Effect of the next smaller and larger value of each parameter."""
    by_key = {outcome.setting.key: index for index, outcome in enumerate(weighed.outcomes)}
    reasons = {key_of(refusal.parameters): refusal.reason for refusal in grid.refused}
    here = weighed.outcomes[at].setting
    for name in grid.varied:
        for value in _neighbours(grid.lists[name], here.value(name)):
            parameters = tuple((each, value if each == name else own) for each, own in here.parameters)
            step = f"{name} {shown(value)} instead of {shown(here.value(name))}"
            there = by_key.get(key_of(parameters))
            if there is not None:
                yield f"{step} {_change(weighed, at, there)}."
            elif key_of(parameters) in reasons:
                yield f"{step} is refused: {reasons[key_of(parameters)]}."


def _neighbours(values: tuple[Value, ...], own: Value) -> Iterator[Value]:
    """The next smaller and next larger number; for values without an order, all others."""
    numbers = sorted(value for value in values if not isinstance(value, str))
    if len(numbers) < len(values) or isinstance(own, str):
        yield from (value for value in values if value != own)
        return
    place = numbers.index(own)
    yield from numbers[max(place - 1, 0) : place]
    yield from numbers[place + 1 : place + 2]


def _change(weighed: Weighed, here: int, there: int) -> str:
    more = weighed.loss(there) - weighed.loss(here)
    if abs(more) < 0.0005:
        loss = "does not change the loss"
    else:
        loss = f"raises the loss by {number(more)}" if more > 0 else f"lowers the loss by {number(-more)}"
    before, after = number(weighed.risk(here)), number(weighed.risk(there))
    if before == after:
        risk = f"keeps the {weighed.risk_name} at {before}"
    else:
        verb = "raises" if weighed.risk(there) > weighed.risk(here) else "lowers"
        risk = f"{verb} the {weighed.risk_name} from {before} to {after}"
    parts = [loss, risk]
    if weighed.delta(here) != weighed.delta(there):
        verb = "raises" if weighed.delta(there) > weighed.delta(here) else "lowers"
        parts.append(f"{verb} delta from {weighed.delta(here):.2g} to {weighed.delta(there):.2g}")
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _warnings(weighed: Weighed, grid: Grid, chosen: int) -> Iterator[str]:
    rows = weighed.outcomes[0].figures.rows
    delays = [delay for outcome in weighed.outcomes if (delay := outcome.figures.delay) is not None]
    if delays and rows < _ROWS_PER_DELAY * max(delays):
        short = sorted({delay for delay in delays if rows < _ROWS_PER_DELAY * delay})
        yield (
            f"The sample of {rows:,} rows is small for a delay of {' and '.join(f'{delay:,}' for delay in short)}: "
            f"its start and end weigh more than in a long stream. "
            f"Use {_ROWS_PER_DELAY * max(delays):,} rows if available."
        )
    if not _sound(weighed, chosen):
        yield (
            f"Every claim has a delta above 1 in {rows:,} rows (here {weighed.delta(chosen):.2g}), which allows "
            f"exposing a person. A larger k lowers it."
        )
    if not all(_strict(weighed, at) for at in range(len(weighed.outcomes))):
        yield (
            "Paper mode is for research: the figures do not show what it discloses beyond k and l. It is recommended "
            "only if no setting is strict."
        )
    if weighed.by_epsilon and len(weighed.claims) > 1:
        yield f"The epsilons are hard to compare, because they protect different things: {'; '.join(weighed.claims)}."
    if len(grid.lists.get("algorithm", ())) > 1:
        yield (
            "Algorithms make different promises, which the figures do not show: read the statement of each, especially "
            "about an observer who knows when rows arrived."
        )
    if len(grid.lists.get("l", ())) > 1:
        yield "l is not part of the risk; its effect shows in the largest share. Choose it by the protection required."
    if weighed.by_epsilon and len(grid.lists.get("k", ())) > 1:
        yield "k is not part of the risk, which is epsilon alone. Choose it by the protection required."
