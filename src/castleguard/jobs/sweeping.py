"""Sweep in Python: try many settings of one or more algorithms on a sample, and recommend one."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from castleguard.algorithms.lookup import find
from castleguard.algorithms.policy import Policy
from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.errors import NoRowsError, UsageError
from castleguard.judge.first_rows import read_sample
from castleguard.judge.publishing import quiet
from castleguard.judge.sweep.advice import Limits
from castleguard.judge.sweep.folder import Folder, identity_of_file
from castleguard.judge.sweep.parameter_grid import Grid, Value, make_grid
from castleguard.judge.sweep.sweep_run import Sweep, recommend
from castleguard.judge.sweep.trial import Ground
from castleguard.schema.table import to_table
from castleguard.version import __version__
from castleguard.workers import cores

if TYPE_CHECKING:
    from castleguard.schema.roles import Schema

SAMPLE_ROWS = 20_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A sweep that can be run: settings, sample, and identity."""

    algorithms: tuple[str, ...]
    grid: Grid
    ground: Ground
    identity: Mapping[str, Any] = field(repr=False)
    name: str
    """Origin of the rows."""

    def run(
        self,
        folder: Folder,
        *,
        limits: Limits | None = None,
        jobs: int | None = None,
        progress: Callable[[], None] | None = None,
    ) -> Sweep:
        """Measure every setting that the folder does not have yet, in `jobs` processes, and recommend one."""
        grid, rows = self.grid, self.ground.sample.num_rows
        about = {
            "data": f"the first {rows:,} rows of {self.name}",
            "algorithm": ", ".join(self.algorithms),
            **{name.replace("_", " "): ", ".join(map(str, values)) for name, values in grid.lists.items()},
            "runs of each setting": str(len(self.ground.seeds)),
            "settings": f"{len(grid.settings)}, and {len(grid.refused)} refused",
        }
        with quiet():
            return recommend(
                self.ground, grid, folder, limits=limits, jobs=jobs or cores(), progress=progress, about=about
            )


def plan_sweep(  # noqa: PLR0913 (options, by keyword only)
    data: object,
    schema: "Schema",
    algorithms: Sequence[str],
    parameters: Mapping[str, Sequence[Value]],
    make: Callable[[str, dict[str, Value]], Policy],
    *,
    sample: int = SAMPLE_ROWS,
    seeds: range = range(1),
    csv: CsvInput = PLAIN,
) -> Plan:
    """Combine the parameters and read the first `sample` rows of a frame or file. `make` builds a setting's policy.

    Several algorithms count as one more parameter, the first. `csv`: how a CSV file is written.
    """
    path = Path(data) if isinstance(data, str | os.PathLike) else None
    several = {"algorithm": tuple(algorithms)} if len(algorithms) > 1 else {}

    def make_setting(given: dict[str, Value]) -> Policy:
        own = dict(given)
        return make(str(own.pop("algorithm", algorithms[0])), own)

    grid = make_grid({**several, **parameters}, make_setting, schema)
    if path is None:
        rows = _first_rows(data, schema, sample)
        known: dict[str, Any] = {"rows": rows.num_rows}  # no checksum: it would confirm a guessed row
    else:
        known = identity_of_file(path)
        rows = read_sample(path, schema, sample, csv)
    identity = {
        "version": __version__,
        "data": known,
        "schema": schema.fingerprint(),
        "algorithm": list(algorithms) if several else algorithms[0],
        "parameters": parameters,
        "sample": sample,
        "runs": len(seeds),
        "seed": seeds.start,
    }
    if csv != PLAIN:
        identity["csv"] = str(csv)
    return Plan(
        algorithms=tuple(algorithms),
        grid=grid,
        ground=Ground(rows, schema, tuple(seeds)),
        identity=identity,
        name="a table in memory" if path is None else path.name,
    )


def sweep(  # noqa: PLR0913 (options, by keyword only)
    data: object,
    schema: "Schema",
    algorithm: str | type[Policy] | Sequence[str | type[Policy]],
    parameters: Mapping[str, Sequence[Value]],
    *,
    sample: int = SAMPLE_ROWS,
    runs: int = 1,
    seed: int = 0,
    jobs: int | None = 1,
    max_loss: float | None = None,
    max_risk: float | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    csv: CsvInput = PLAIN,
) -> Sweep:
    """Publish the first rows of `data` with every combination of the parameters, in memory, and recommend one.

    `data` is a frame or a file, `algorithm` a policy or its name, or a list of them, and `parameters` a list of values
    for each parameter: `{"k": [5, 10, 20], "delay": [500, 1000]}`. Several algorithms take only parameters that all of
    them have. Every setting runs `runs` times, in `jobs` processes (None: one per core). `max_loss` and `max_risk`
    bound the recommendation. With `output`, table, picture and report are written to that folder, and the same call
    after an interruption does only the rest.

    Published rows are checked and discarded. The figures depend on unpublished rows: keep them internal. Raises
    PolicyError if no combination is possible.
    """
    given = [algorithm] if isinstance(algorithm, str | type) else algorithm
    kinds = {kind.name: kind for kind in (find(each) if isinstance(each, str) else each for each in given)}
    if not kinds:
        raise UsageError("algorithm is empty: give a policy or its name, or a list of them")
    for kind in kinds.values():
        _check_parameters(kind, parameters)
    lists = {name: tuple(values) for name, values in parameters.items()}
    plan = plan_sweep(
        data,
        schema,
        list(kinds),
        lists,
        lambda name, values: kinds[name](**values),
        sample=sample,
        seeds=range(seed, seed + runs),
        csv=csv,
    )
    limits = Limits(loss=max_loss, risk=max_risk)
    if output is None:
        with tempfile.TemporaryDirectory() as path, closing(Folder(Path(path), plan.identity)) as folder:
            return plan.run(folder, limits=limits, jobs=jobs)
    with closing(Folder(Path(output), plan.identity, overwrite=overwrite)) as folder:
        found = plan.run(folder, limits=limits, jobs=jobs)
        found.write(folder)
        return found


def _check_parameters(kind: type[Policy], lists: Mapping[str, Sequence[Value]]) -> None:
    known = [each for each in fields(kind) if each.init]
    names = [each.name for each in known]
    for name, values in lists.items():
        if name not in names:
            raise UsageError(f"{kind.name} has no parameter {name!r}; it has {', '.join(names)}")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise UsageError(f"{name} needs a list of values, for example [5, 10]")
    needed = [each.name for each in known if each.default is MISSING and each.default_factory is MISSING]
    missing = [name for name in needed if name not in lists]
    if missing:
        raise UsageError(f"{kind.name} needs {' and '.join(missing)}: give a list of values for each")


def _first_rows(data: object, schema: "Schema", rows: int) -> pa.Table:
    table = to_table(data, schema.columns, person=schema.person)
    if not table.num_rows:
        raise NoRowsError("the table has no rows to try parameters on")
    return table.select(list(schema.columns)).slice(0, rows).combine_chunks()
