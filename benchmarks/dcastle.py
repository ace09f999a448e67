"""The experiment of dCASTLE's paper (Mohamed, Ghanem, Nagi 2020, section 6), repeated: Adult over several sites.

    python -m benchmarks.dcastle --figure out/dcastle.png

The 30,162 complete rows go round-robin to n sites, and their information loss is compared for centralised CASTLE, for
dCASTLE as printed, and for sites that do not talk to each other. As in the paper, dCASTLE has 25 clusters and the
others 50, the loss window is 100, the delay counts rows of a site (so with 10,000 and 8 sites nothing expires before
the end), and of eleven columns those before and after the sensitive one are quasi-identifiers, in the paper's order.

Losses are means over rows and attributes, and rows that are suppressed or dropped count as 1. The compared engines are
measured before the gate, which in paper mode would refuse rows that the paper publishes.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import cycle
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from pyarrow import csv
from rich.console import Console
from rich.table import Table

import castleguard as cg
from benchmarks import adult
from castleguard.cli.picture import COLOURS, STYLE
from castleguard.engine.castle import CastleEngine
from castleguard.engine.policy import Mode
from castleguard.schema.coded import CodedRows
from castleguard.schema.decode import Decoder
from castleguard.sites.paper import PaperNetwork
from castleguard.sites.paper_books import PaperRun
from castleguard.sites.paper_policy import PaperPolicy

DOMAINS = {
    "age": 100,
    "fnlwgt": 1_500_000,
    "education-num": 20,
    "capital-gain": 100_000,
    "capital-loss": 5_000,
    "hours-per-week": 100,
}
CATEGORIES = ("workclass", "education", "marital-status", "occupation", "native-country")
CLUSTERS, CLUSTERS_ALONE, LOSS_WINDOW = 25, 50, 100
PAPER_BYTES, PAPER_SHARE, PAPER_INCREASE, PAPER_L_COST = 20_000, 0.003, 0.35, (0.20, 0.27)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One point of a figure. The defaults are those that the paper's last figures state."""

    sites: int = 8
    k: int = 100
    delay: int = 10_000
    columns: int = 10
    """Quasi-identifiers, the paper's |QI|."""
    l: int = 2
    sensitive: str = "workclass"

    def __str__(self) -> str:
        return f"n={self.sites}, k={self.k}, delay={self.delay:,}, |QI|={self.columns}, l={self.l} of {self.sensitive}"


Varied = Literal["sites", "k", "delay", "columns", "l"]


@dataclass(frozen=True)
class Sweep:
    """One figure: what is varied, over which values, and what stays."""

    varied: Varied
    values: Sequence[int]
    base: Setting

    def settings(self) -> list[Setting]:
        """Its points."""
        changes: list[dict[str, Any]] = [{self.varied: value} for value in self.values]
        return [replace(self.base, **change) for change in changes]

    def __str__(self) -> str:
        kept = {"sites": "n", "k": "k", "delay": "delay", "columns": "|QI|", "l": "l"}
        stays = ", ".join(f"{sign}={getattr(self.base, name):,}" for name, sign in kept.items() if name != self.varied)
        return f"{kept[self.varied]} varied, {stays}, {self.base.sensitive} sensitive"


SWEEPS = (
    Sweep("sites", range(2, 11), Setting()),
    *(Sweep("k", (20, 50, 100, 200, 400), Setting(sites=sites)) for sites in (2, 10)),
    *(Sweep("delay", (1_000, 5_000, 10_000, 20_000, 30_000), Setting(sites=sites)) for sites in (2, 10)),
    *(Sweep("columns", (2, 4, 6, 8, 10), Setting(sites=sites)) for sites in (2, 10)),
    Sweep("l", (2, 3, 4, 5, 6), Setting()),
    Sweep("l", (2, 4, 6, 8, 10), Setting(sensitive="occupation")),
)


# -- Who is compared ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is given."""

    table: pa.Table
    schema: cg.Schema
    setting: Setting
    seed: int

    def policy(self, *, mode: Mode, max_clusters: int) -> cg.Castle:
        """The setting as a policy of CASTLE."""
        setting = self.setting
        return cg.Castle(
            k=setting.k,
            l=setting.l,
            delay=setting.delay,
            max_clusters=max_clusters,
            loss_window=LOSS_WINDOW,
            mode=mode,
        )

    def rows(self) -> CodedRows:
        """The rows as engines take them."""
        return Decoder(self.schema, key=np.arange(2, dtype=np.uint64)).decode(self.table).rows


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a method did. What it does not have (who sends nothing has no bytes) is 0."""

    loss: float
    messages: int = 0
    bytes: int = 0
    most_clusters: int = 0
    groups: int = 0
    groups_below_k: int = 0
    suppressed: int = 0


Runner = Callable[[Task], Outcome]


class Simulated(Protocol):
    """What a simulation of several sites must tell."""

    @property
    def information_loss(self) -> float | None: ...
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...


Simulate = Callable[[pa.Table, cg.Schema, cg.Castle, int, int], Simulated]
"""Table, schema, policy, number of sites, seed."""


def distributed(simulate: Simulate, *, mode: Mode) -> Runner:
    """A method in which the sites talk to each other, made of whatever simulates them.

    Another protocol becomes a column of the tables and a line of the figure by one more entry in `METHODS`:
    `"distributed, strict": distributed(..., mode="strict")`.
    """

    def run(task: Task) -> Outcome:
        policy = task.policy(mode=mode, max_clusters=CLUSTERS)
        found = simulate(task.table, task.schema, policy, task.setting.sites, task.seed)
        more = {}
        if isinstance(found, PaperRun):
            names = ("most_clusters", "groups", "groups_below_k", "suppressed")
            more = {name: getattr(found, name) for name in names}
        loss = 1.0 if found.information_loss is None else found.information_loss
        return Outcome(loss=loss, messages=found.messages, bytes=found.bytes, **more)

    return run


def simulate_paper(table: pa.Table, schema: cg.Schema, policy: cg.Castle, sites: int, seed: int) -> PaperRun:
    """dCASTLE as printed."""
    printed = PaperPolicy(
        k=policy.k,
        l=policy.l,
        delay=policy.delay,
        sites=sites,
        max_clusters=policy.max_clusters,
        loss_window=policy.loss_window,
    )
    return PaperNetwork(schema, printed, seed=seed).run_round_robin(table)


def centralised(*, mode: Mode) -> Runner:
    """One site has all rows."""
    return lambda task: _alone(task, mode, sites=1)


def without_communication(*, mode: Mode) -> Runner:
    """Every site anonymises its own rows, and that is all."""
    return lambda task: _alone(task, mode, sites=task.setting.sites)


def _alone(task: Task, mode: Mode, *, sites: int) -> Outcome:
    policy = task.policy(mode=mode, max_clusters=CLUSTERS_ALONE)
    rows = task.rows()
    count, loss, dropped = rows.person.size, 0.0, 0
    for site in range(sites):
        key = np.random.default_rng([task.seed, site]).integers(0, 2**32, 8, dtype=np.uint32)
        engine = CastleEngine(task.schema, policy, key=key)
        own = rows.take(np.arange(site, count, sites))
        for decisions in (engine.push(own, 0.0), engine.flush()):
            loss += float(np.sum(decisions.loss[decisions.group]))
            dropped += decisions.dropped.size
    return Outcome(loss=(loss + dropped) / count, suppressed=dropped)


CENTRALISED, DISTRIBUTED, ALONE = "centralised", "distributed", "w/o communication"
METHODS: Mapping[str, Runner] = {
    CENTRALISED: centralised(mode="paper"),
    DISTRIBUTED: distributed(simulate_paper, mode="paper"),
    ALONE: without_communication(mode="paper"),
    "centralised, strict": centralised(mode="strict"),
    "w/o communication, strict": without_communication(mode="strict"),
}


# -- The experiment ----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Experiment:
    """Runs settings, each one once."""

    table: pa.Table
    runs: int = 1
    methods: Mapping[str, Runner] = field(default_factory=lambda: METHODS)
    _found: dict[tuple[str, Setting], Outcome] = field(default_factory=dict)

    def outcome(self, method: str, setting: Setting) -> Outcome:
        """The mean of the runs."""
        key = method, setting
        if key not in self._found:
            schema = make_schema(self.table, setting)
            table = self.table.select(schema.columns)
            run = self.methods[method]
            self._found[key] = mean([run(Task(table, schema, setting, seed)) for seed in range(self.runs)])
        return self._found[key]

    def without_l(self, setting: Setting) -> Outcome:
        """dCASTLE for k-anonymity only, of the same quasi-identifiers."""
        return self.outcome(DISTRIBUTED, replace(setting, l=1))

    @cached_property
    def data_bytes(self) -> int:
        """The size of the data as CSV."""
        sink = pa.BufferOutputStream()
        csv.write_csv(
            self.table.drop_columns(["pid"]), sink, csv.WriteOptions(include_header=False, quoting_style="none")
        )
        return int(sink.getvalue().size)


def mean(outcomes: Sequence[Outcome]) -> Outcome:
    """The mean loss, and of what is counted the rounded mean; clusters are the most of all."""
    found: dict[str, Any] = {name: round(fmean(getattr(one, name) for one in outcomes)) for name in vars(outcomes[0])}
    found["loss"] = fmean(one.loss for one in outcomes)
    found["most_clusters"] = max(one.most_clusters for one in outcomes)
    return Outcome(**found)


def make_schema(table: pa.Table, setting: Setting) -> cg.Schema:
    """The paper's columns in its order; k-anonymity has no sensitive one, and the same quasi-identifiers."""
    folder = adult.data_folder()
    roles: list[cg.Numeric | cg.Categorical] = [
        cg.Numeric(name, lower=0, upper=upper) for name, upper in DOMAINS.items()
    ]
    trees: dict[str, cg.Hierarchy] = {}
    for name in CATEGORIES:
        if folder is not None:
            trees[name] = cg.Hierarchy.from_csv(folder / "adult" / "hierarchies" / f"tds_{name}.csv")
        else:
            trees[name] = cg.Hierarchy.flat(sorted(set(table.column(name).to_pylist())))
    roles += [cg.Categorical(name, hierarchy=tree) for name, tree in trees.items() if name != setting.sensitive]
    sensitive = cg.Sensitive(setting.sensitive, hierarchy=trees[setting.sensitive])
    return cg.Schema(
        person="pid",
        quasi_identifiers=roles[: setting.columns],
        sensitive=[sensitive] if setting.l > 1 else [],
    )


# -- What is shown -----------------------------------------------------------------------------------------------------


def tabulate(experiment: Experiment, sweep: Sweep) -> Table:
    """A row per point: losses of all methods, then what dCASTLE sent and published."""
    table = Table(title=str(sweep), title_justify="left")
    columns = [sweep.varied, *(name.replace(", ", ",\n") for name in experiment.methods)]
    columns += ["distributed\nl = 1", "cost\nof l", "increase\nw/o comm.", "messages", "bytes", "of the\ndata"]
    columns += ["bytes\nl = 1", "most\nclusters", "groups", "below k", "suppressed"]
    for name in columns:
        table.add_column(name, justify="right")
    for value, setting in zip(sweep.values, sweep.settings(), strict=True):
        losses = [f"{experiment.outcome(name, setting).loss:.4f}" for name in experiment.methods]
        found, plain = experiment.outcome(DISTRIBUTED, setting), experiment.without_l(setting)
        alone = experiment.outcome(ALONE, setting)
        table.add_row(
            f"{value:,}",
            *losses,
            f"{plain.loss:.4f}",
            f"{found.loss / plain.loss - 1:+.1%}",
            f"{alone.loss / found.loss - 1:+.1%}",
            f"{found.messages:,}",
            f"{found.bytes:,}",
            f"{found.bytes / experiment.data_bytes:.2%}",
            f"{plain.bytes:,}",
            f"{found.most_clusters}",
            f"{found.groups:,}",
            f"{found.groups_below_k}",
            f"{found.suppressed:,}",
        )
    return table


def claims(experiment: Experiment, sweeps: Sequence[Sweep]) -> Table:
    """What the paper states, and what came of it here."""
    settings = list(dict.fromkeys(setting for sweep in sweeps for setting in sweep.settings()))
    table = Table(title=f"the paper's claims, {len(settings)} settings", title_justify="left", show_lines=True)
    table.add_column("the paper")
    table.add_column("here")
    for claim, found in _claims(experiment, settings):
        table.add_row(claim, found)
    for claim, found in _trends(experiment, sweeps):
        table.add_row(claim, found)
    return table


def _claims(experiment: Experiment, settings: Sequence[Setting]) -> Iterator[tuple[str, str]]:
    near = [_ratio(experiment, DISTRIBUTED, CENTRALISED, setting) for setting in settings]
    yield "loss of distributed close to centralised most of the time", f"{_spread(near)} against centralised"
    more = [_ratio(experiment, ALONE, DISTRIBUTED, setting) for setting in settings]
    yield (
        f"w/o communication loses up to {PAPER_INCREASE:.0%} more than distributed",
        f"{_spread(more)}; more in {sum(change > 0 for change in more)} settings",
    )
    found = [experiment.outcome(DISTRIBUTED, setting) for setting in settings]
    most = max(outcome.bytes for outcome in found)
    yield (
        f"at most {PAPER_BYTES:,} bytes of messages, {PAPER_SHARE:.1%} of the data (6.6 MB there)",
        f"at most {most:,} bytes, {most / experiment.data_bytes:.2%} of {experiment.data_bytes:,}; "
        f"within {PAPER_BYTES:,} in {sum(outcome.bytes <= PAPER_BYTES for outcome in found)} settings",
    )
    clusters = max(outcome.most_clusters for outcome in found)
    yield f"at most 43 clusters, fewer than twice the limit of {CLUSTERS}", f"at most {clusters}"
    costs = [
        experiment.outcome(DISTRIBUTED, setting).loss / experiment.without_l(setting).loss - 1
        for setting in settings
        if setting.l == 2 and setting.sensitive == "workclass"
    ]
    if costs:
        low, high = PAPER_L_COST
        yield f"l = 2 costs {low:.0%} to {high:.0%} of loss", _spread(costs)
    below, groups = sum(outcome.groups_below_k for outcome in found), sum(outcome.groups for outcome in found)
    yield (
        '"guarantees that a released cluster will have size > k"',
        f"{below:,} of {groups:,} groups below k, in {sum(outcome.groups_below_k > 0 for outcome in found)} settings",
    )


def _trends(experiment: Experiment, sweeps: Sequence[Sweep]) -> Iterator[tuple[str, str]]:
    """From the first to the last point of every sweep, against the direction that the paper states."""
    stated = {
        "sites": ("hardly more", "more"),
        "k": ("more", "fewer"),
        "delay": ("less", "fewer"),
        "columns": ("more", "more"),
        "l": ("hardly more", ""),
    }
    for sweep in sweeps:
        first, *_, last = (experiment.outcome(DISTRIBUTED, setting) for setting in sweep.settings())
        loss, sent = stated[sweep.varied]
        yield (
            f"{sweep}: {loss} loss" + (f", {sent} bytes" if sent else ""),
            f"loss {first.loss:.3f} to {last.loss:.3f}, bytes {first.bytes:,} to {last.bytes:,}",
        )


def _ratio(experiment: Experiment, one: str, other: str, setting: Setting) -> float:
    return experiment.outcome(one, setting).loss / experiment.outcome(other, setting).loss - 1


def _spread(changes: Sequence[float]) -> str:
    return f"{min(changes):+.1%} to {max(changes):+.1%}, median {median(changes):+.1%}"


def draw(path: Path, experiment: Experiment, sweeps: Sequence[Sweep]) -> None:
    """The paper's figures 5 and 7: per sweep the losses of all methods, and below them the bytes that were sent.

    Raises ModuleNotFoundError without matplotlib.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    across = min(len(sweeps), 5)
    lines = -(-len(sweeps) // across)
    with mpl.rc_context({**STYLE, "axes.titlesize": 8, "axes.titleweight": "normal"}):
        figure, panels = plt.subplots(
            2 * lines, across, figsize=(3.4 * across, 6 * lines), squeeze=False, layout="constrained"
        )
        for number, sweep in enumerate(sweeps):
            line, column = divmod(number, across)
            _draw_losses(panels[2 * line, column], experiment, sweep)
            _draw_bytes(panels[2 * line + 1, column], experiment, sweep)
        for number in range(len(sweeps), lines * across):
            panels[-2, number % across].axis("off")
            panels[-1, number % across].axis("off")
        for axes in panels[:2, 0]:
            axes.legend(frameon=False, fontsize=7)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, facecolor="white")
        plt.close(figure)


def _draw_losses(axes: Any, experiment: Experiment, sweep: Sweep) -> None:
    for name, colour in zip(experiment.methods, cycle(COLOURS), strict=False):
        losses = [experiment.outcome(name, setting).loss for setting in sweep.settings()]
        style = "--" if name.endswith("strict") else "-"
        axes.plot(sweep.values, losses, style, marker="o", markersize=3, color=colour, label=name)
    axes.set(title=str(sweep).replace(", ", ",\n", 1), ylabel="information loss", ylim=(0, None))


def _draw_bytes(axes: Any, experiment: Experiment, sweep: Sweep) -> None:
    settings, values = sweep.settings(), sweep.values
    sent = [experiment.outcome(DISTRIBUTED, setting).bytes for setting in settings]
    plain = [experiment.without_l(setting).bytes for setting in settings]
    axes.plot(values, sent, marker="o", markersize=3, color=COLOURS[1], label="distributed")
    axes.plot(values, plain, ":", marker="o", markersize=3, color=COLOURS[1], label="distributed, l = 1")
    axes.axhline(PAPER_BYTES, color=COLOURS[3], linewidth=0.8, label="the paper's most")
    axes.set(xlabel=sweep.varied, ylabel="bytes of messages", ylim=(0, None))


def shortened(sweep: Sweep) -> Sweep:
    """Its ends only: to see that the benchmark works."""
    return replace(sweep, values=(sweep.values[0], sweep.values[-1]))


def load() -> pa.Table:
    """Adult, or the end of the program where it is missing."""
    if adult.data_folder() is None:
        raise SystemExit("CASTLEGUARD_DATA must name the folder with adult/adult.data.gz and its hierarchies")
    return adult.load()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1, help="runs per point, each with choices of its own")
    parser.add_argument("--only", choices=sorted({sweep.varied for sweep in SWEEPS}), help="vary nothing but this")
    parser.add_argument("--quick", action="store_true", help="4,000 rows, and the ends of every sweep")
    parser.add_argument("--figure", type=Path, help="draw losses and bytes into this file")
    asked = parser.parse_args(arguments)
    if asked.runs < 1:
        parser.error("there must be a run")
    table = load()
    sweeps = [sweep for sweep in SWEEPS if asked.only in (None, sweep.varied)]
    if asked.quick:
        table, sweeps = table.slice(0, 4_000), [shortened(sweep) for sweep in sweeps]
    experiment, console = Experiment(table, asked.runs), Console(width=200)
    console.print(f"{table.num_rows:,} rows, {experiment.data_bytes:,} bytes, {asked.runs} run(s) per point")
    for sweep in sweeps:
        start = time.process_time()
        console.print(tabulate(experiment, sweep))
        print(f"  {time.process_time() - start:.0f} s", file=sys.stderr)
    console.print(claims(experiment, sweeps))
    if asked.figure is not None:
        _draw_if_possible(asked.figure, experiment, sweeps)


def _draw_if_possible(path: Path, experiment: Experiment, sweeps: Sequence[Sweep]) -> None:
    try:
        draw(path, experiment, sweeps)
    except ModuleNotFoundError as exc:
        if exc.name is None or not exc.name.startswith("matplotlib"):
            raise
        raise SystemExit("no figure: it needs matplotlib, pip install 'castleguard[plot]'") from exc


if __name__ == "__main__":
    main()
