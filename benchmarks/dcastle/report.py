"""The figures as tables: per sweep the losses and what the sites sent, and the paper's claims beside all of it."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from rich.table import Table

from benchmarks.dcastle.experiment import Experiment
from benchmarks.dcastle.methods import CLUSTERS, SHARING, Outcome, Sharing
from benchmarks.dcastle.settings import Setting, Sweep

PAPER_BYTES, PAPER_SHARE, PAPER_INCREASE, PAPER_L_COST = 20_000, 0.003, 0.35, (0.20, 0.27)
HEADINGS = (
    "sites that talk",
    "loss",
    "against\ncentralised",
    "w/o comm.\nagainst it",
    "loss\nl = 1",
    "cost\nof l",
    "messages",
    "bytes",
    "of the\ndata",
    "bytes\nl = 1",
    "most\nclusters",
    "groups",
    "below k",
    "suppressed",
)


def sharing(experiment: Experiment) -> list[Sharing]:
    """The methods of the experiment in which sites talk."""
    return [each for each in SHARING if each.name in experiment.methods]


def tabulate_losses(experiment: Experiment, sweep: Sweep) -> Table:
    """A row per point, a column per method."""
    table = Table(title=f"information loss: {sweep}", title_justify="left")
    for name in (sweep.sign, *(name.replace(", ", ",\n") for name in experiment.methods)):
        table.add_column(name, justify="right")
    for value, setting in zip(sweep.values, sweep.settings(), strict=True):
        table.add_row(f"{value:,}", *(f"{experiment.outcome(name, setting).loss:.4f}" for name in experiment.methods))
    return table


def tabulate_sharing(experiment: Experiment, sweep: Sweep) -> Table:
    """Per point and method in which sites talk: what it gains, what was sent for it, and what came out."""
    table = Table(title=f"sites that talk: {sweep}", title_justify="left")
    for name in (sweep.sign, *HEADINGS):
        table.add_column(name, justify="left" if name == HEADINGS[0] else "right")
    for value, setting in zip(sweep.values, sweep.settings(), strict=True):
        for number, each in enumerate(sharing(experiment)):
            table.add_row("" if number else f"{value:,}", each.name, *_cells(experiment, each, setting))
        table.add_section()
    return table


def _cells(experiment: Experiment, each: Sharing, setting: Setting) -> list[str]:
    found, plain = (experiment.outcome(each.name, point) for point in (setting, setting.without_l))
    return [
        f"{found.loss:.4f}",
        f"{distance(experiment, each, setting):+.1%}",
        f"{gain(experiment, each, setting):+.1%}",
        f"{plain.loss:.4f}",
        f"{cost_of_l(experiment, each, setting):+.1%}",
        f"{found.messages:,}",
        f"{found.bytes:,}",
        f"{found.bytes / experiment.data_bytes:.2%}",
        f"{plain.bytes:,}",
        f"{found.most_clusters or '-'}",
        f"{found.groups:,}",
        f"{found.groups_below_k:,}",
        f"{found.suppressed:,}",
    ]


def distance(experiment: Experiment, each: Sharing, setting: Setting) -> float:
    """How much more is lost than at one site that has all rows."""
    return _outcome(experiment, each, setting).loss / experiment.outcome(each.centralised, setting).loss - 1


def gain(experiment: Experiment, each: Sharing, setting: Setting) -> float:
    """How much more sites lose that do not talk."""
    return experiment.outcome(each.alone, setting).loss / _outcome(experiment, each, setting).loss - 1


def cost_of_l(experiment: Experiment, each: Sharing, setting: Setting) -> float:
    """How much more is lost than by k-anonymity alone."""
    return _outcome(experiment, each, setting).loss / _outcome(experiment, each, setting.without_l).loss - 1


def _outcome(experiment: Experiment, each: Sharing, setting: Setting) -> Outcome:
    return experiment.outcome(each.name, setting)


# -- The paper's claims ------------------------------------------------------------------------------------------------

Judge = Callable[[Sharing], str]
"""What came of a claim in one way of talking."""


def tabulate_claims(experiment: Experiment, sweeps: Sequence[Sweep]) -> Table:
    """What the paper states, and what came of it here, in every way of talking."""
    settings = list(dict.fromkeys(setting for sweep in sweeps for setting in sweep.settings()))
    table = Table(title=f"the paper's claims, {len(settings)} settings", title_justify="left", show_lines=True)
    table.add_column("the paper", ratio=3)
    for each in sharing(experiment):
        table.add_column(each.name if each.promises_k else f"{each.name}, as printed", ratio=4)
    for claims in (_claims(experiment, settings), _trends(experiment, sweeps)):
        for claim, judge in claims:
            table.add_row(claim, *(judge(each) for each in sharing(experiment)))
    return table


def _claims(experiment: Experiment, settings: Sequence[Setting]) -> Iterator[tuple[str, Judge]]:
    def outcomes(each: Sharing) -> list[Outcome]:
        return [_outcome(experiment, each, setting) for setting in settings]

    def near(each: Sharing) -> str:
        return f"{_spread([distance(experiment, each, setting) for setting in settings])} against {each.centralised}"

    def more(each: Sharing) -> str:
        gains = [gain(experiment, each, setting) for setting in settings]
        return f"{_spread(gains)}; more in {sum(change > 0 for change in gains)} settings"

    def little_sent(each: Sharing) -> str:
        sent = [outcome.bytes for outcome in outcomes(each)]
        within = sum(count <= PAPER_BYTES for count in sent)
        return (
            f"at most {max(sent):,} bytes, {max(sent) / experiment.data_bytes:.2%} of {experiment.data_bytes:,}, "
            f"median {median(sent):,.0f}; within {PAPER_BYTES:,} in {within} settings"
        )

    def few_clusters(each: Sharing) -> str:
        most = max(outcome.most_clusters for outcome in outcomes(each))
        return f"at most {most}" if most else "not counted"

    def large_groups(each: Sharing) -> str:
        below = [outcome.groups_below_k for outcome in outcomes(each)]
        groups = sum(outcome.groups for outcome in outcomes(each))
        return f"{sum(below):,} of {groups:,} groups below k, in {sum(count > 0 for count in below)} settings"

    yield "loss of distributed close to centralised most of the time", near
    yield f"w/o communication loses up to {PAPER_INCREASE:.0%} more than distributed", more
    yield f"at most {PAPER_BYTES:,} bytes of messages, {PAPER_SHARE:.1%} of the data (6.6 MB there)", little_sent
    yield f"at most 43 clusters, fewer than twice the limit of {CLUSTERS}", few_clusters
    yield from _claims_of_l(experiment, settings)
    yield '"guarantees that a released cluster will have size > k"', large_groups


def _claims_of_l(experiment: Experiment, settings: Sequence[Setting]) -> Iterator[tuple[str, Judge]]:
    """Those of the paper's section 6.3, where they are about the settings that were asked for."""
    compared = [setting for setting in settings if setting.l == 2 and setting.sensitive == "workclass"]

    def costs(each: Sharing) -> str:
        return _spread([cost_of_l(experiment, each, setting) for setting in compared])

    def more_bytes(each: Sharing) -> str:
        pairs = [(_outcome(experiment, each, one), _outcome(experiment, each, one.without_l)) for one in compared]
        return _spread([found.bytes / plain.bytes - 1 for found, plain in pairs if plain.bytes])

    if compared:
        low, high = PAPER_L_COST
        yield f"l = 2 costs {low:.0%} to {high:.0%} of loss", costs
        yield "l-diversity sends hardly more bytes than k-anonymity", more_bytes


def _trends(experiment: Experiment, sweeps: Sequence[Sweep]) -> Iterator[tuple[str, Judge]]:
    """From the first to the last point of every sweep, against the direction that the paper states."""
    stated = {
        "sites": ("hardly more", "more"),
        "k": ("more", "fewer"),
        "delay": ("less", "fewer"),
        "columns": ("more", "more"),
        "l": ("hardly more", ""),
    }
    for sweep in sweeps:
        loss, sent = stated[sweep.varied]
        yield f"{sweep}: {loss} loss" + (f", {sent} bytes" if sent else ""), _ends(experiment, sweep)


def _ends(experiment: Experiment, sweep: Sweep) -> Judge:
    def judge(each: Sharing) -> str:
        first, *_, last = (_outcome(experiment, each, setting) for setting in sweep.settings())
        return f"loss {first.loss:.3f} to {last.loss:.3f}, bytes {first.bytes:,} to {last.bytes:,}"

    return judge


def _spread(changes: Sequence[float]) -> str:
    return f"{min(changes):+.1%} to {max(changes):+.1%}, median {median(changes):+.1%}" if changes else "-"


def broken_promises(experiment: Experiment, sweeps: Sequence[Sweep]) -> list[str]:
    """Where a method that promises k published fewer; there must be none."""
    settings = dict.fromkeys(setting for sweep in sweeps for setting in sweep.settings())
    points = [point for setting in settings for point in dict.fromkeys((setting, setting.without_l))]
    return [
        f"{each.name}, {point}: {_outcome(experiment, each, point).groups_below_k:,} groups below k"
        for each in sharing(experiment)
        for point in points
        if each.promises_k and _outcome(experiment, each, point).groups_below_k
    ]
