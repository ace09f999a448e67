"""Which setting to take, in words: the knee of the Pareto set, what the next steps cost, and what limits allow."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from castleguard.errors import PolicyError
from castleguard.judge.sweep.grid import Grid, Value, key_of, shown
from castleguard.judge.sweep.weighing import Weighed, distances_to_ideal, pareto

_ROWS_PER_DELAY = 10  # a sample that is shorter is mostly its own beginning and end


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What must not be exceeded; None: no limit."""

    loss: float | None = None
    risk: float | None = None


@dataclass(frozen=True)
class Advice:
    """The setting that is recommended, by its number among the outcomes, and why."""

    chosen: int
    met: bool
    """Whether it keeps the limits."""
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]


def advise(weighed: Weighed, grid: Grid, limits: Limits) -> Advice:
    """Choose a setting and say why."""
    candidates = np.array(_worth_taking(weighed))
    if not candidates.size:
        raise PolicyError(
            "no setting publishes any row: take a smaller k or l, a longer delay, a larger sample, or more of epsilon"
        )
    fitting = [at for at in candidates if _excess(weighed, limits, int(at)) <= 0]
    if fitting:
        # Scaled by all candidates: a limit takes some away, and must not change what a step is worth.
        distance = dict(zip(candidates.tolist(), distances_to_ideal(weighed.points[candidates]), strict=True))
        chosen = min((int(at) for at in fitting), key=lambda at: (distance[at], at))
    else:
        chosen = min((int(at) for at in candidates), key=lambda at: (_excess(weighed, limits, at), at))
    sentences = (_opening(weighed, grid, limits, chosen, bool(fitting)), *_steps(weighed, grid, chosen))
    return Advice(chosen, bool(fitting), sentences, tuple(_warnings(weighed, grid, chosen)))


def number(value: float) -> str:
    """A figure with so many digits that it can be compared: 0.043, 0.00012, 12.50, 1,234."""
    if value == 0 or 0.001 <= abs(value) < 1:
        return f"{value:.3f}"
    if abs(value) < 1:
        return f"{value:.2g}"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"


def _worth_taking(weighed: Weighed) -> list[int]:
    """The Pareto set without what only looks good, unless nothing else is left: paper mode, whose weaknesses no figure
    here shows, and a delta of more than 1 in all rows, which allows that somebody is exposed. A setting that publishes
    nothing has no risk, and is never worth taking.
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
    """By which share of a limit it is exceeded, at worst; 0 or less if all limits are kept."""
    given = ((weighed.loss(at), limits.loss), (weighed.risk(at), limits.risk))
    return max(((value - limit) / max(limit, 1e-12) for value, limit in given if limit is not None), default=0.0)


def _opening(weighed: Weighed, grid: Grid, limits: Limits, at: int, fits: bool) -> str:
    words = weighed.outcomes[at].setting.words(grid.varied)
    figures = f"loss {number(weighed.loss(at))}, {weighed.risk_name} {number(weighed.risk(at))}"
    options = [
        f"--max-{name} {limit:g}" for name, limit in (("loss", limits.loss), ("risk", limits.risk)) if limit is not None
    ]
    if not options:
        return f"Take {words}: {figures}. Of the settings that nothing beats it lies nearest to the ideal."
    if fits:
        return (
            f"Take {words}: {figures}. Of the settings that keep {' and '.join(options)} it lies nearest to the ideal."
        )
    which = f"No setting meets both {' and '.join(options)}" if len(options) > 1 else f"No setting meets {options[0]}"
    return f"{which}: closest is {words}, with {figures}."


def _steps(weighed: Weighed, grid: Grid, at: int) -> Iterator[str]:
    """What the next value of each parameter would cost, up and down."""
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
    """The next smaller and the next larger number; of what has no order all others."""
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
        loss = "leaves the loss as it is"
    else:
        loss = f"costs {number(more)} more loss" if more > 0 else f"saves {number(-more)} of the loss"
    before, after = number(weighed.risk(here)), number(weighed.risk(there))
    if before == after:
        risk = f"leaves the {weighed.risk_name} at {before}"
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
            f"its beginning and its end weigh more than in a stream. "
            f"Take {_ROWS_PER_DELAY * max(delays):,} rows if there are so many."
        )
    if not _sound(weighed, chosen):
        yield (
            f"Every claim has a delta above 1 in {rows:,} rows (here {weighed.delta(chosen):.2g}): it allows that "
            f"somebody is exposed. A larger k lowers it."
        )
    if not all(_strict(weighed, at) for at in range(len(weighed.outcomes))):
        yield (
            "Paper mode is for science: what it gives away beyond k and l is in no figure here. It is recommended only "
            "where nothing is strict."
        )
    if weighed.by_epsilon and len(weighed.claims) > 1:
        yield f"The epsilons are not of one kind, and hard to compare: some are of {'; some of '.join(weighed.claims)}."
    if len(grid.lists.get("algorithm", ())) > 1:
        yield (
            "Algorithms do not promise the same, and no figure here shows that: read the statement of each, above all "
            "what it says of an observer who knows when rows arrived."
        )
    if len(grid.lists.get("l", ())) > 1:
        yield "l is no part of the risk: what it protects shows in the largest share. Choose it by what must hold."
    if weighed.by_epsilon and len(grid.lists.get("k", ())) > 1:
        yield "k is no part of the risk, which is epsilon alone: choose it by what must hold."
