"""Answers of `castleguard budget`, as text and as figures.

Losses are rounded up: the text never understates them.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from castleguard.errors import PolicyError
from castleguard.privacy.composition import Loss, compositions
from castleguard.privacy.parameters import least_epsilon, rounded_up
from castleguard.privacy.perturbation import distance_for, phi_for, probability_within
from castleguard.privacy.sdgs import min_epsilon, min_k, sdgs_delta, sdgs_delta_tight

WIDTH = 100

TIGHT = "The smallest delta that holds for the same algorithm"
RATE_NEEDS_MORE = "(-: this sample rate needs a larger epsilon)"
NOT_REACHED = "(-: no epsilon reaches this delta)"
SDGS_ONLY = (
    "It holds for one row added to or removed from a window (for one person, if each has at most one row in it), and "
    "for the SDGS algorithm (policy Sdgs): rows are sampled, generalised by a rule that does not depend on them, and "
    "published in groups of at least k. It does not hold for CASTLEGUARD as printed in its paper, where groups depend "
    "on the data."
)
PHI_IS_EPSILON = (
    "If the bounds of an attribute are public and values are clamped to them, phi is exactly the epsilon of this "
    "numeric attribute in one row, and the epsilons of a row's attributes add up. With bounds taken from the stream, "
    "as in the paper, no epsilon holds."
)
VALUES_ONLY = (
    "It covers the values in the rows. It does not hide that a row exists, whose it is or when it arrived, and "
    "sampling rows first does not lower the loss."
)


class Answer(NamedTuple):
    """An answer as text and as figures for JSON."""

    text: str
    figures: dict[str, Any]


class Promise(NamedTuple):
    """Parameters of SDGS for one window, named as in the Python functions."""

    k: int
    sample_rate: float
    epsilon: float
    dp_delta: float


class Solved(NamedTuple):
    """The answer to a question about sampling."""

    sentence: str
    table: str
    by_theorem: Promise
    tight: Promise


def answer_delta(*, k: int, sample_rate: float, epsilon: float) -> Solved:
    """Delta of the given parameters."""
    found, tight = _promises(sample_rate, lambda _: (k, epsilon))
    sentence = (
        f"With k {k}, sample rate {sample_rate:g} and epsilon {epsilon:g}, delta is "
        f"{rounded_up(found.dp_delta, 3)} (Theorem 2 of CASTLEGUARD). {TIGHT} is {rounded_up(tight.dp_delta, 3)}."
    )
    table = _grid(
        "delta by Theorem 2",
        ("k", _around_count(k)),
        ("epsilon", _around(epsilon)),
        lambda rows, loss: rounded_up(sdgs_delta(k=int(rows), sample_rate=sample_rate, epsilon=loss), 3),
        RATE_NEEDS_MORE,
    )
    return Solved(sentence, table, found, tight)


def answer_k(*, sample_rate: float, epsilon: float, dp_delta: float) -> Solved:
    """Smallest k for the given epsilon and delta."""
    smallest = partial(min_k, sample_rate=sample_rate, epsilon=epsilon, dp_delta=dp_delta)
    found, tight = _promises(sample_rate, lambda tight: (smallest(tight=tight), epsilon))
    sentence = (
        f"For epsilon {epsilon:g} and delta {dp_delta:g} at sample rate {sample_rate:g}, k must be at least {found.k} "
        f"(Theorem 2 of CASTLEGUARD); delta is then {rounded_up(found.dp_delta, 3)}. "
        f"{TIGHT} would allow k {tight.k}."
    )
    table = _grid(
        f"k for delta {dp_delta:g}",
        ("sample rate", [rate for rate in _around(sample_rate) if rate < 1]),
        ("epsilon", _around(epsilon)),
        lambda rate, loss: str(min_k(sample_rate=rate, epsilon=loss, dp_delta=dp_delta)),
        RATE_NEEDS_MORE,
    )
    return Solved(sentence, table, found, tight)


def answer_epsilon(*, k: int, sample_rate: float, dp_delta: float) -> Solved:
    """Smallest epsilon for the given k and delta."""
    smallest = partial(min_epsilon, k=k, sample_rate=sample_rate, dp_delta=dp_delta)
    found, tight = _promises(sample_rate, lambda tight: (k, smallest(tight=tight)))
    sentence = (
        f"With k {k}, sample rate {sample_rate:g} and delta {dp_delta:g}, epsilon is {rounded_up(found.epsilon)} "
        f"(Theorem 2 of CASTLEGUARD). {TIGHT} would allow epsilon {rounded_up(tight.epsilon)}. "
        f"No epsilon below {rounded_up(least_epsilon(sample_rate=sample_rate))} is possible at this sample rate."
    )
    table = _grid(
        f"epsilon for delta {dp_delta:g}",
        ("k", _around_count(k)),
        ("sample rate", [rate for rate in _around(sample_rate) if rate < 1]),
        lambda rows, rate: rounded_up(min_epsilon(k=int(rows), sample_rate=rate, dp_delta=dp_delta), 4),
        NOT_REACHED,
    )
    return Solved(sentence, table, found, tight)


def _promises(sample_rate: float, parameters: Callable[[bool], tuple[int, float]]) -> tuple[Promise, Promise]:
    """Promises by Theorem 2 and by the smallest delta; `parameters(tight)` returns k and epsilon."""

    def promise(tight: bool) -> Promise:
        k, epsilon = parameters(tight)
        delta = (sdgs_delta_tight if tight else sdgs_delta)(k=k, sample_rate=sample_rate, epsilon=epsilon)
        return Promise(k, sample_rate, epsilon, delta)

    return promise(False), promise(True)


def answer_sampling(asked: str, solved: Solved, *, windows: int | None, total_delta: float | None) -> Answer:
    """The answer about sampling; with `windows`, also their composed loss."""
    figures = {"asked": asked, **solved.by_theorem._asdict(), "tight": solved.tight._asdict()}
    parts = [_wrap(solved.sentence), solved.table, _wrap(SDGS_ONLY)]
    if windows is not None:
        sum_of_deltas = windows * solved.by_theorem.dp_delta
        total = 2 * sum_of_deltas if total_delta is None else total_delta
        if total_delta is None and total >= 1:
            raise PolicyError(
                f"{windows} windows with a delta of {rounded_up(solved.by_theorem.dp_delta, 3)} each leave no privacy: "
                "use a larger k, a smaller sample rate or a larger epsilon"
            )
        promise = solved.by_theorem
        losses = _losses(epsilon=promise.epsilon, times=windows, dp_delta=promise.dp_delta, total_delta=total)
        figures["composition"] = {"windows": windows, "total_delta": total, **_figures(losses)}
        parts += [
            _wrap(
                f"A person with one row in each of {_several(windows, 'window')} loses {_smallest(losses)}, with a "
                f"total delta of {rounded_up(total, 3)}. (zCDP does not apply: each window has its own delta.)"
            ),
            _losses_table(losses),
        ]
    return Answer("\n\n".join(parts), figures)


def answer_noise(*, phi: float | None, distance: float | None, probability: float | None) -> Answer:
    """The one of phi, distance and probability that is None, from the other two."""
    if phi is None:
        assert distance is not None
        assert probability is not None
        asked, phi = "phi", phi_for(probability=probability, distance=distance)
    elif distance is None:
        assert probability is not None
        asked, distance = "distance", distance_for(phi=phi, probability=probability)
    else:
        asked, probability = "probability", probability_within(phi=phi, distance=distance)
    sentence = (
        f"With phi {phi:.6g} a value moves by less than {distance:.4g} of its range with probability {probability:.6g} "
        "(Theorem 1 of CASTLEGUARD)."
    )
    table = _table(
        f"phi {phi:.6g}",
        ["moves by less than"],
        {
            f"{chance:.0%} of values": [f"{distance_for(phi=phi, probability=chance):.4f}"]
            for chance in (0.5, 0.9, 0.99)
        },
    )
    figures = {"asked": asked, "phi": phi, "distance": distance, "probability": probability}
    return Answer("\n\n".join([_wrap(sentence), table, _wrap(PHI_IS_EPSILON)]), figures)


def answer_rows(*, epsilon: float, rows: int, total_delta: float | None) -> Answer:
    """Privacy loss of one person with `rows` rows, by every bound that applies."""
    total = total_delta or 0.0
    losses = _losses(epsilon=epsilon, times=rows, dp_delta=0.0, total_delta=total)
    sentence = f"A person with {_several(rows, 'row')} of epsilon {epsilon:g} each loses {_smallest(losses)}"
    sentence += ". With --delta, more bounds apply." if total == 0 else f", with a total delta of {total:g}."
    figures = {"asked": "rows", "row_epsilon": epsilon, "rows": rows, "total_delta": total, **_figures(losses)}
    return Answer("\n\n".join([_wrap(sentence), _losses_table(losses), _wrap(VALUES_ONLY)]), figures)


Losses = Mapping[str, Loss]  # by name of the bound


def _losses(*, epsilon: float, times: int, dp_delta: float, total_delta: float) -> Losses:
    """Every bound that applies, and zCDP also with its tight rho."""
    found: dict[str, Loss] = {}
    for tight in (False, True):
        for loss in compositions(epsilon=epsilon, times=times, dp_delta=dp_delta, total_delta=total_delta, tight=tight):
            found["tight zCDP" if tight and loss.method == "zCDP" else loss.method] = loss
    return found


def _smallest_name(losses: Losses) -> str:
    return min(losses, key=lambda name: losses[name].epsilon)


def _smallest(losses: Losses) -> str:
    name = _smallest_name(losses)
    return f"at most epsilon {rounded_up(losses[name].epsilon)} by {name} composition"


def _figures(losses: Losses) -> dict[str, Any]:
    by_name = {name: {"epsilon": loss.epsilon, "dp_delta": loss.dp_delta} for name, loss in losses.items()}
    return {"losses": by_name, "smallest": _smallest_name(losses)}


def _losses_table(losses: Losses) -> str:
    rows = {name: [rounded_up(loss.epsilon), rounded_up(loss.dp_delta, 3)] for name, loss in losses.items()}
    return _table("composition", ["epsilon", "delta"], rows)


def _around(value: float) -> list[float]:
    return [value / 2, value, 2 * value]


def _around_count(value: int) -> list[float]:
    return sorted({float(max(value // 2, 2)), float(value), 2.0 * value})


def _grid(
    corner: str,
    down: tuple[str, Sequence[float]],
    across: tuple[str, Sequence[float]],
    cell: Callable[[float, float], str],
    without: str,
) -> str:
    """Table of answers for neighbouring parameters; `without` explains the dash in cells without an answer."""

    def try_cell(row: float, column: float) -> str:
        try:
            return cell(row, column)
        except PolicyError:
            return "-"

    rows = {f"{down[0]} {row:g}": [try_cell(row, column) for column in across[1]] for row in down[1]}
    table = _table(corner, [f"{across[0]} {column:g}" for column in across[1]], rows)
    return f"{table}\n  {without}" if any("-" in cells for cells in rows.values()) else table


def _table(corner: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A text table: row names left-aligned, figures right-aligned."""
    lines = [[corner, *columns], *([name, *cells] for name, cells in rows.items())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    laid_out = (
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        for line in lines
    )
    return "\n".join("  " + "   ".join(line) for line in laid_out)


def _several(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def _wrap(text: str) -> str:
    return textwrap.fill(text, WIDTH)
