"""The ways to publish rows. Each takes a case and an empty folder, and returns what came of it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

import castleguard as cg
from tests.golden import shim
from tests.golden.cases import Case
from tests.golden.draws import Draws
from tests.golden.files import FORMATS, add_letters, add_parts, add_published, write_rows
from tests.golden.outcomes import Outcome
from tests.golden.policies import build_policy
from tests.golden.worlds import build_schema

_FORMS = ("table", "table", "batch", "dicts", "polars", "pandas")
_NUMBERS = (None, "bounds", "interval", "midpoint")
_OPTIONS = (
    *("k", "l", "delay", "mode", "epsilon", "phi", "sample_rate", "rows_per_person", "window", "window_unit", "clock"),
    *("start_cells", "unit", "diversity", "c", "max_clusters", "loss_window", "reuse", "slack", "suppression"),
    "order",
)
"""Parameters that the command line has options for."""
_SITE_OPTIONS = ("k", "l", "delay", "max_clusters", "loss_window", "reuse", "suppression", "reserve")


def run_case(case: Case, folder: Path) -> Outcome:
    """Publish the rows of a case."""
    return _SURFACES[case.slot.surface](case, folder)


def _anonymise(case: Case, folder: Path) -> Outcome:
    outcome, draws = Outcome(), case.draws("surface")
    schema, policy, numbers = build_schema(case.schema), build_policy(case.policy), _pick_numbers(case, draws)
    outcome.add_table(cg.anonymise(_forms(case, draws)(case.rows), schema, policy, seed=case.seed, numbers=numbers))
    return outcome


def _push(case: Case, folder: Path) -> Outcome:
    return _stream(case, restores=0)


def _restore(case: Case, folder: Path) -> Outcome:
    return _stream(case, restores=case.draws("restores").whole(1, 3))


def _stream(case: Case, *, restores: int) -> Outcome:
    """Rows in random cuts, with time passing between them, and with the stream replaced by its snapshot."""
    outcome, draws = Outcome(), case.draws("surface")
    schema, policy, numbers = build_schema(case.schema), build_policy(case.policy), _pick_numbers(case, draws)
    with_key = draws.chance(0.3)
    keys: dict[str, Any] = {"key": case.seed.to_bytes(32, "big")} if with_key else {"seed": case.seed}
    stream = cg.Anonymiser(schema, policy, numbers=numbers, **keys)
    form, batches = _forms(case, draws), list(_batches(case, draws, parts=draws.whole(2, 20)))
    restored = set(draws.sample(range(len(batches)), min(restores, len(batches))))
    for number, (rows, now) in enumerate(batches):
        outcome.add_table(stream.push(form(rows), now=now))
        outcome.books.append(stream.rejected())
        if number in restored:
            stream = cg.Anonymiser.restore(schema, policy, stream.snapshot(), numbers=numbers)
        if now is not None and draws.chance(0.3):
            outcome.add_table(stream.tick(now + 1.0))
        if draws.chance(0.2):
            outcome.add_report(stream.report())
    outcome.add_table(stream.finish(warn=False))
    outcome.add_report(stream.report())
    return outcome


def _carry(case: Case, folder: Path) -> Outcome:
    """Two streams, one after the other, that count the rows of each person together."""
    outcome, draws = Outcome(), case.draws("surface")
    schema, policy = build_schema(case.schema), build_policy(case.policy)
    form, middle = _forms(case, draws), case.rows.num_rows // 2
    carried: bytes | None = None
    for number, rows in enumerate((case.rows.slice(0, middle), case.rows.slice(middle))):
        stream = cg.Anonymiser(schema, policy, seed=case.seed + number)
        if carried is not None:
            outcome.books.append(stream.take_over(carried))
        outcome.add_table(stream.push(form(rows)))
        outcome.add_table(stream.finish(warn=False))
        outcome.add_report(stream.report())
        carried = stream.carry()
    return outcome


def _job(case: Case, folder: Path) -> Outcome:
    """A job file: from files of one format to parts of another, in one run or in two."""
    outcome, draws = Outcome(), case.draws("surface")
    sink, source = FORMATS[case.slot.repeat % len(FORMATS)], draws.pick(FORMATS)
    kept, runs = draws.chance(0.7), draws.whole(1, 2)
    job: dict[str, Any] = {
        "source": {"type": source, "path": "in/", "batch_rows": draws.pick([50, 333, 65536])},
        "schema": case.schema,
        "privacy": case.policy,
        "sink": {"type": sink, "path": "out/"},
        "dead_letter": {"path": "rejects.jsonl"},
    }
    numbers = _pick_numbers(case, draws)
    if numbers is not None:
        job["numbers"] = numbers
    if sink in ("csv", "jsonl") and draws.chance(0.3):
        job["sink"]["gzip"] = True
    if sink == "csv" and draws.chance(0.5):
        job["sink"]["csv"] = {"formulas": draws.pick(["refuse", "keep"])}
    if kept:
        job["checkpoint"] = {"path": "state.db"}
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False), encoding="utf-8")
    (folder / "in").mkdir()
    by_command = draws.chance(0.5)
    with shim.fixed_keys(f"case {case.number}"):
        # Without a checkpoint a second run would begin at the beginning: then both files are there at once.
        for number, (first, end) in enumerate(draws.cuts(case.rows.num_rows, runs)):
            write_rows(case.rows.slice(first, end - first), folder / "in" / f"{number}.{source}")
            if kept or number == runs - 1:
                if by_command:
                    shim.run_command(["run", str(path), "--quiet"])
                else:
                    outcome.add_report(shim.run_job(path))
    add_parts(outcome, folder / "out")
    add_letters(outcome, folder / "rejects.jsonl")
    return outcome


def _anonymise_command(case: Case, folder: Path) -> Outcome:
    outcome, draws = Outcome(), case.draws("surface")
    source, output = folder / f"in.{draws.pick(FORMATS)}", folder / f"out.{FORMATS[case.number % len(FORMATS)]}"
    write_rows(case.rows, source)
    numbers = _pick_numbers(case, draws)
    given = {name: case.policy[name] for name in _OPTIONS if name in case.policy}
    given |= {"algorithm": case.slot.algorithm, "seed": case.seed, **({} if numbers is None else {"numbers": numbers})}
    closeness = case.policy.get("closeness", {})
    given |= {name: closeness[name] for name in ("t", "distance", "burn_in") if name in closeness}
    _run_on_file("anonymise", case, source, output, given)
    add_published(outcome, output)
    return outcome


def _simulate_command(case: Case, folder: Path) -> Outcome:
    outcome = Outcome()
    source, output = folder / "in.parquet", folder / f"out.{FORMATS[case.number % len(FORMATS)]}"
    write_rows(case.rows, source)
    given = {name: case.policy[name] for name in _SITE_OPTIONS if name in case.policy}
    _run_on_file("simulate", case, source, output, {**given, "sites": case.policy["sites"], "seed": case.seed})
    add_published(outcome, output)
    return outcome


def _randomise_command(case: Case, folder: Path) -> Outcome:
    outcome, draws = Outcome(), case.draws("surface")
    source, output = folder / f"in.{draws.pick(FORMATS)}", folder / f"out.{FORMATS[case.number % len(FORMATS)]}"
    write_rows(case.rows, source)
    given: dict[str, Any] = {"seed": case.seed}
    given |= {name: case.policy[name] for name in ("epsilon", "phi") if name in case.policy}
    _run_on_file("randomise", case, source, output, given)
    add_published(outcome, output)
    return outcome


def _run_on_file(command: str, case: Case, source: Path, output: Path, given: dict[str, Any]) -> None:
    schema = source.with_name("schema.yaml")
    schema.write_text(yaml.safe_dump(case.schema, sort_keys=False), encoding="utf-8")
    arguments = [command, str(source), "-o", str(output), "--schema", str(schema)]
    for name, value in given.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    shim.run_command(arguments)


def _randomise(case: Case, folder: Path) -> Outcome:
    outcome, draws = Outcome(), case.draws("surface")
    schema, parameters = build_schema(case.schema), _noise(case)
    form, randomiser = _forms(case, draws), cg.Randomiser(schema, **parameters, seed=case.seed)
    for first, end in draws.cuts(case.rows.num_rows, draws.whole(1, 6)):
        outcome.add_table(randomiser.randomise(form(case.rows.slice(first, end - first))))
        if draws.chance(0.3):
            randomiser = cg.Randomiser.restore(schema, randomiser.snapshot(), **parameters)
    return outcome


def _edge(case: Case, folder: Path) -> Outcome:
    """Rows are randomised where they arise, and grouped elsewhere."""
    outcome, draws = Outcome(), case.draws("surface")
    schema, policy = build_schema(case.schema), build_policy({**case.policy, "noise": "edge"})
    parameters = _noise(case)
    randomiser = cg.Randomiser(schema, **parameters, seed=case.seed)
    stream = cg.Anonymiser(schema, policy, seed=case.seed + 1)
    for first, end in draws.cuts(case.rows.num_rows, 5):
        noisy = randomiser.randomise(case.rows.slice(first, end - first))
        outcome.add_table(stream.push(noisy))
    outcome.add_table(stream.finish(warn=False))
    outcome.add_report(stream.report())
    return outcome


def _noise(case: Case) -> dict[str, Any]:
    """The parameters of a randomiser."""
    return {name: case.policy[name] for name in ("epsilon", "phi", "weights") if name in case.policy}


def _simulate(case: Case, folder: Path) -> Outcome:
    """Several sites in one process, with and without faults."""
    outcome, draws = Outcome(), case.draws("surface")
    loss = 0.02 if case.slot.repeat % 4 == 1 else 0.0
    faults = shim.Faults(loss=loss, doubled=0.05, delay=2) if draws.chance(0.4) else None
    found = shim.simulate(
        case.rows,
        build_schema(case.schema),
        build_policy(case.policy),
        seed=case.seed,
        faults=faults,
        numbers=_pick_numbers(case, draws),
        batch=draws.pick([0, 1, 7]),
    )
    outcome.add_table(found.output)
    for report in found.reports.values():
        outcome.add_report(report)
    outcome.books.append(found.messages)
    return outcome


def _paper_sites(case: Case, folder: Path) -> Outcome:
    """As printed: the boxes of released rows stand for the rows."""
    outcome = Outcome()
    given = {name: value for name, value in case.policy.items() if name != "algorithm"}
    boxes, found = shim.run_paper_sites(case.rows, build_schema(case.schema), given, seed=case.seed)
    outcome.add_rows(["box"], [repr(box) for box in boxes])
    outcome.books.append({name: value for name, value in found.items() if name != "bytes"})
    return outcome


def _shards(case: Case, folder: Path) -> Outcome:
    """The stream cut into shards, whose states are kept as bytes between micro-batches."""
    outcome, draws = Outcome(), case.draws("surface")
    schema, shards = build_schema(case.schema), draws.whole(1, 3)
    route: Any = shim.HashRoute(schema, shards)
    if case.slot.mode == "strict" and draws.chance(0.5):
        names = [entry["name"] for entry in case.schema["quasi_identifiers"] if entry["name"] != "at"]
        if names:
            route = shim.LocalityRoute(schema, shim.cut_domain(schema, shards))
    position = ("unused",) if draws.chance(0.5) else ()
    plan = shim.Plan(
        schema=schema,
        policy=build_policy(case.policy),
        route=route,
        numbers=_pick_numbers(case, draws),
        position=position,
        seed=case.seed if draws.chance(0.5) else None,
    )
    made = [shim.Shard(plan, number, key=b"golden".ljust(32)) for number in range(plan.shards)]
    now = 0.0
    for rows, _ in _batches(case, draws, parts=draws.whole(2, 8)):
        now += draws.pick([1.0, 10.0, 40.0])
        shard_of = plan.route.shard_of(rows)
        for number in range(plan.shards):
            mine = rows.filter(pa.array(shard_of == number))
            _enter(outcome, made[number].take(mine, now))
            outcome.books.append(made[number].move_alarm(now))
            made[number] = shim.Shard.restore(plan, number, made[number].snapshot())
        if draws.chance(0.3):
            now += 5.0
            _enter(outcome, made[0].tick(now))
    for shard in made:
        _enter(outcome, shard.flush(now + 1.0))
    return outcome


def _enter(outcome: Outcome, found: Any) -> None:
    for table in found.published:
        outcome.add_table(table)
    outcome.books.append([list(reject) for reject in found.rejected])
    outcome.add_report(json.loads(found.counts))


def _batches(case: Case, draws: Draws, *, parts: int) -> Iterator[tuple[pa.Table, float | None]]:
    """The rows in pieces, each with the time of its arrival where that is told."""
    now = 100.0
    for first, end in draws.cuts(case.rows.num_rows, parts):
        now += draws.pick([2.0, 5.0, 12.0])
        yield case.rows.slice(first, end - first), now if case.timed else None


def _pick_numbers(case: Case, draws: Draws) -> Any:
    """How ranges are published; DOCA has none."""
    return None if case.slot.algorithm == "doca" else draws.pick(_NUMBERS)


def _forms(case: Case, draws: Draws) -> Callable[[pa.Table], object]:
    """Hands rows over in one of the forms that a stream takes, or in another one each time."""
    # Times of day are text in some forms, and a stream refuses a batch with another type than the first had.
    mixed = draws.chance(0.4) and "time" not in case.schema.get("public", ())
    form = draws.pick(_FORMS)
    return lambda rows: _in_form(rows, draws.pick(_FORMS) if mixed else form)


def _in_form(rows: pa.Table, form: str) -> object:
    if form == "batch":
        return pa.RecordBatch.from_arrays([_whole(column) for column in rows.columns], schema=rows.schema)
    if form == "polars":
        import polars

        return polars.from_arrow(rows)
    if form == "pandas":
        return rows.to_pandas()
    return rows.to_pylist() if form == "dicts" and rows.num_rows else rows


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


_SURFACES: dict[str, Callable[[Case, Path], Outcome]] = {
    "anonymise": _anonymise,
    "push": _push,
    "restore": _restore,
    "carry": _carry,
    "job": _job,
    "anonymise command": _anonymise_command,
    "shards": _shards,
    "edge": _edge,
    "randomise": _randomise,
    "randomise command": _randomise_command,
    "simulate": _simulate,
    "simulate command": _simulate_command,
    "paper sites": _paper_sites,
}
