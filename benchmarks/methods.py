"""Citadel beside CASTLE, FADS, Mondrian and dynamicGroup, on Adult and on a stream with recurring persons.

    python -m benchmarks.methods --picture docs/results/methods.png

Every method publishes the same rows and is judged by `castleguard.lab.side_by_side`; the bounds of all methods are
widened to a public grid of a hundredth of each domain. In the second stream the rows of Adult are dealt to 1,000
persons at random, about 30 each. Prints a table in Markdown: information loss, with 1 for a suppressed row, and rows
per second of processor time. Needs the folder of data sets (docs/reference/data.md).
"""

import argparse
import logging
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import castleguard as cg
from castleguard.drawing import COLOURS, canvas
from castleguard.lab import adult
from castleguard.lab.harness import Options, make_task
from castleguard.lab.side_by_side import Compared, choose, compare

METHODS = ("citadel", "citadel-narrow", "castle", "fads", "mondrian", "dynamic-group")
PERSONS = 1000


class Setting(NamedTuple):
    """One column of the table."""

    repeated: bool
    k: int
    l: int
    delay: int

    @property
    def title(self) -> str:
        """Label in the picture."""
        rows = "30 rows a person" if self.repeated else "Adult"
        diverse = f", l={self.l}" if self.repeated else ""
        return f"{rows}, k={self.k}{diverse}, delay {self.delay:,}"


SETTINGS = (
    *(Setting(False, k, 1, delay) for k in (10, 100) for delay in (1000, 10_000)),
    *(Setting(True, 10, l, 5000) for l in (1, 2)),
)


def run(setting: Setting) -> list[Compared]:
    """Run every method on one setting."""
    rows = adult.uci()
    plain = adult.schema(adult.observed(rows))
    schema = cg.Schema(
        person=plain.person_role, quasi_identifiers=plain.quasi_identifiers, sensitive=[cg.Sensitive("occupation")]
    )
    if setting.repeated:
        persons = np.random.default_rng(1).integers(0, PERSONS, rows.num_rows)
        rows = rows.set_column(rows.column_names.index(adult.PERSON), adult.PERSON, pa.array(persons))
    options = Options(on_grid=True)
    task = make_task(rows, schema, k=setting.k, l=setting.l, delay=setting.delay, options=options)
    return list(compare(task, choose(METHODS)))


def table(found: dict[Setting, list[Compared]]) -> str:
    """Loss and rows per second in Markdown; broken promises are marked."""
    lines = [
        f"| | {' | '.join(setting.title for setting in found)} |",
        "|---" * (len(found) + 1) + "|",
    ]
    for at, each in enumerate(next(iter(found.values()))):
        lines.append(f"| {each.method.title} | {' | '.join(_cell(column[at]) for column in found.values())} |")
    return "\n".join(lines)


def _cell(each: Compared) -> str:
    measured = each.measured
    if measured is None or measured.loss is None:
        return "not possible"
    broken = " (!)" if measured.broken else ""
    return f"{measured.loss:.3f}, {measured.rows_per_second / 1000:,.0f}k{broken}"


def draw(path: Path, found: dict[Setting, list[Compared]]) -> None:
    """Draw the losses as bars."""
    with canvas(path, width=11, height=4.5) as figure:
        axes = figure.subplots()
        for at, (each, colour) in enumerate(zip(next(iter(found.values())), COLOURS, strict=True)):
            places = np.arange(len(found)) + (at - (len(METHODS) - 1) / 2) * 0.13
            columns = [column[at].measured for column in found.values()]
            losses = [np.nan if one is None or one.loss is None else one.loss for one in columns]
            late = " (keeps no delay)" if each.method.key == "dynamic-group" else ""
            axes.bar(places, losses, width=0.12, color=colour, label=f"{each.method.title}{late}")
        titles = [setting.title.replace(", ", "\n", 1) for setting in found]
        axes.set_xticks(np.arange(len(found)), titles, fontsize=8.5)
        axes.set(title="Information loss of the same rows (0 = nothing is lost, 1 = everything)")
        axes.legend(frameon=False, fontsize=8.5)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path, help="draw the losses")
    given = parser.parse_args()
    logging.disable()
    found = {setting: run(setting) for setting in SETTINGS}
    print(table(found))
    for setting, column in found.items():
        for each in column:
            if each.measured is not None and each.measured.broken:
                print(f"{setting.title}, {each.method.title}: {each.measured.broken}")
    if given.picture is not None:
        draw(given.picture, found)


if __name__ == "__main__":
    main()
