"""The options that make a policy, and the policy that they make. Defaults are the policies' own, and stand there."""

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from castleguard.algorithms.base import Policy

_Command = TypeVar("_Command", bound=Callable[..., Any])

ALGORITHMS = ("castle", "castleguard", "sdgs", "doca")
REQUIRED = {
    "castle": ("k", "delay"),
    "castleguard": ("k", "delay"),
    "sdgs": ("k", "sample_rate", "epsilon"),
    "doca": ("epsilon", "delay"),
    "dcastle": ("k", "delay"),
}

_OPTIONS = (
    click.option(
        "--algorithm",
        type=click.Choice(ALGORITHMS),
        default="castle",
        show_default=True,
        help="k-anonymous groups; the same on sampled and noisy rows; true rows under differential privacy; or noisy "
        "means.",
    ),
    click.option(
        "--k", type=int, help="Distinct persons in every published group; with doca rows of a mean.  [required]"
    ),
    click.option("--l", type=int, help="Distinct values of every sensitive column in every group.  [default: 1]"),
    click.option("--delay", type=int, help="Rows that may arrive before a row has to leave.  [required, not sdgs]"),
    click.option(
        "--mode",
        type=click.Choice(["strict", "paper"]),
        help="Keep the promise where the paper loses it, or do what the paper prints.  [default: strict]",
    ),
    click.option("--epsilon", type=float, help="Differential privacy of a row, all columns together."),
    click.option("--phi", type=float, help="The same for each column by itself; in paper mode noise of scale R/phi."),
    click.option("--sample-rate", type=float, help="Probability that a row is kept at all.  [default: 1]"),
    click.option("--rows-per-person", type=int, help="Rows of a person that may go on in any window; others do not."),
    click.option("--window", type=float, help="Length of a window, in seconds or rows."),
    click.option("--window-unit", type=click.Choice(["seconds", "rows"]), help="[default: seconds]"),
    click.option("--clock", type=click.Choice(["arrivals", "sampled", "time"]), help="What the delay counts."),
    click.option("--noise", type=click.Choice(["here", "edge"]), help="edge: the rows arrive randomised."),
    click.option("--start-cells", type=int, help="Boxes that the grid of SDGS starts with.  [default: 1]"),
    click.option("--unit", type=click.Choice(["person", "row"]), help="What SDGS protects.  [default: person]"),
    click.option(
        "--diversity",
        type=click.Choice(["distinct", "entropy", "recursive"]),
        help="How l is meant.  [default: distinct]",
    ),
    click.option("--c", type=float, help="The c of recursive (c, l)-diversity."),
    click.option("--t", type=float, help="t-closeness of every group to the running distribution."),
    click.option(
        "--distance",
        type=click.Choice(["equal", "ordered", "hierarchical"]),
        help="Between sensitive values, for t-closeness.  [default: equal]",
    ),
    click.option("--burn-in", type=int, help="Rows before t-closeness is judged and anything leaves."),
    click.option("--sensitivity", type=float, help="Paper-mode doca: what one row can change.  [default: 1.5 ranges]"),
    click.option("--max-clusters", type=int, help="Open clusters, CASTLE's beta.  [default: 50]"),
    click.option("--loss-window", type=int, help="Clusters whose mean loss is the threshold.  [default: 100]"),
    click.option(
        "--reuse",
        type=click.Choice(["paper", "off"]),
        help="Whether a late row may join a group that was published before, or is merged.  [default: paper]",
    ),
    click.option(
        "--suppression",
        type=click.Choice(["root", "generalise", "drop"]),
        help="Publish a row that fits nowhere at the root, or drop it.  [default: by mode]",
    ),
    click.option(
        "--order",
        type=click.Choice(["shuffled", "arrival", "input"]),
        help="Order of the published rows.  [default: by mode]",
    ),
)

_OF_SITES = ("k", "l", "delay", "max_clusters", "loss_window", "reuse", "suppression")
_CLOSENESS = {"t": "t", "distance": "distance", "burn_in": "burn_in"}


def policy_options(command: _Command) -> _Command:
    """Give a command all options of a policy."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def site_policy_options(command: _Command) -> _Command:
    """Give a command those that dCASTLE has: of a group, and of a stream."""
    for option in reversed(_OPTIONS):
        decorated = option(lambda: None)
        if decorated.__click_params__[0].name in _OF_SITES:  # type: ignore[attr-defined]
            command = option(command)
    return command


def make_policy(algorithm: str, options: dict[str, Any]) -> "Policy":
    """The policy that was asked for. An option that it does not have, or lacks, is named in one sentence."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in REQUIRED[algorithm]:
        if name not in given:
            raise click.UsageError(f"--{name.replace('_', '-')} is needed: it has no default with {algorithm}")
    from castleguard.algorithms.registry import find

    kind = find(algorithm)
    if any(name in given for name in _CLOSENESS):
        given["closeness"] = _closeness({_CLOSENESS[name]: given.pop(name) for name in _CLOSENESS if name in given})
    if algorithm == "sdgs" and "window" not in given:
        if "start_cells" not in given:
            raise click.UsageError(
                "a file is one window, and the grid of sdgs starts as one box: cut it with --start-cells, "
                "or make windows that it can learn from, --window 10000 --window-unit rows"
            )
        given["window"] = 1.0  # seconds, all of them the same moment
    if given.get("window_unit") == "rows" and float(given.get("window", 0.5)).is_integer():
        given["window"] = int(given["window"])
    known = {field.name for field in fields(kind)}
    for name in given:
        if name not in known:
            option = "--t" if name == "closeness" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} does not belong to {algorithm}")
    return kind(**given)


def _closeness(given: dict[str, Any]) -> object:
    from castleguard.privacy.closeness import Closeness

    if "t" not in given:
        raise click.UsageError("--distance and --burn-in belong to --t")
    return Closeness(**given)
