"""All publishing methods that are compared, as values: name, claim, and function."""

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.citadel.policy import Citadel, Reuse
from castleguard.algorithms.policy import Mode
from castleguard.errors import UsageError
from castleguard.lab.baselines.coded_boxes import NOWHERE, Boxed, Coded, Codes, published, read
from castleguard.lab.baselines.condensation import HISTORY, condensation
from castleguard.lab.baselines.fads import fads
from castleguard.lab.baselines.mondrian import mondrian
from castleguard.lab.baselines.naive import laplace_error
from castleguard.lab.harness import Method, Outcome, Task
from castleguard.lab.transcriptions.dcastle.network import PaperNetwork
from castleguard.lab.transcriptions.dcastle.paper_messages import Step
from castleguard.lab.transcriptions.dcastle.paper_policy import PaperPolicy
from castleguard.lab.transcriptions.dcastle.space import Box
from castleguard.stream import Anonymiser

PARTS_PER_DELAY = 20
"""A stream is fed in parts of this share of its delay, which bounds the error of release times."""


def _castle(mode: Mode) -> Callable[[Task], Outcome]:
    """CASTLE of the package."""

    return lambda task: _one_stream(task, task.policy(mode))


def _citadel(reuse: Reuse) -> Callable[[Task], Outcome]:
    """Citadel of the package."""

    def publish(task: Task) -> Outcome:
        return _one_stream(task, Citadel(k=task.k, l=task.l, delay=task.delay, reuse=reuse))

    return publish


def _one_stream(task: Task, policy: Castle | Citadel) -> Outcome:
    """Run all rows through one stream of the package."""
    _warm_up(task, policy)
    seconds = _time(task.table, task, policy)
    table, released, refused = _stream(task.table, task, policy, task.seed)
    notes = (f"the gate refused {refused:,} rows that would have left in too small a group",) if refused else ()
    return Outcome(published=table, closed=not policy.strict, released=released, seconds=seconds, notes=notes)


def _alone(task: Task) -> Outcome:
    """Sites without messages: rows are dealt out in turn, and each site runs CASTLE on its own.

    A row may wait for `delay` rows of all sites, so for a share of them at its own.
    """
    policy = task.policy(delay=_delay_of_a_site(task))
    _warm_up(task, policy)
    seconds = 0.0
    tables, moments = [], []
    for site in range(task.sites):
        rows = task.table.take(pa.array(np.arange(site, task.table.num_rows, task.sites)))
        seconds += _time(rows, task, policy)
        table, released, _ = _stream(rows, task, policy, task.seed + site)
        tables.append(table)
        moments.append((released - 1) * task.sites + site + 1)
    return Outcome(published=pa.concat_tables(tables), released=np.concatenate(moments), seconds=seconds)


def _delay_of_a_site(task: Task) -> int:
    delay = task.delay // task.sites
    if delay + 1 < task.k:
        raise UsageError(
            f"one of {task.sites} sites sees {delay} rows in a delay of {task.delay}: too few for k = {task.k}"
        )
    return delay


def _dcastle_as_printed(task: Task) -> Outcome:
    """dCASTLE as printed: rows are dealt out in turn, and every message arrives before the next row.

    A row that is output at the most general values counts as suppressed.
    """
    policy = PaperPolicy(k=task.k, l=task.l, delay=_delay_of_a_site(task), sites=task.sites)
    start = time.process_time()
    coded = read(task.table, task.schema, seed=task.seed)
    network = PaperNetwork(task.schema, policy, seed=task.seed)
    box, released = np.full(coded.count, NOWHERE, dtype=np.int64), np.ones(coded.count, dtype=np.int64)
    numbers: dict[Box, int] = {}

    def enter(steps: list[Step], arrived: int) -> None:
        for release in (each for step in steps for each in step.releases):
            rows = coded.usable[np.array(release.rows) * task.sites + release.site]
            released[rows] = arrived
            if release.box != network.root:
                box[rows] = numbers.setdefault(release.box, len(numbers))

    for number, row in enumerate(coded.usable.tolist()):
        arrival = network.arrive(number % task.sites, coded.rows.take(np.array([row])))
        enter([arrival, *network.settle()], row + 1)
    enter(network.finish(), coded.count)
    bounds = np.array(list(numbers)).reshape(-1, len(task.schema.quasi_identifiers), 2)
    boxed = Boxed(box, bounds[:, :, 0], bounds[:, :, 1], released)
    table = published(coded, boxed, on_grid=task.on_grid)
    seconds = time.process_time() - start
    newest = coded.numbers[boxed.released[boxed.box != NOWHERE] - 1]
    note = f"{task.sites} sites sent {network.messages:,} messages of {network.bytes:,} bytes together"
    return Outcome(published=table, closed=not task.on_grid, released=newest + 1, seconds=seconds, notes=(note,))


def _stream(rows: pa.Table, task: Task, policy: Castle | Citadel, seed: int) -> tuple[pa.Table, Codes, int]:
    """Published rows of a stream, lower bounds of the arrivals at each release, and rows that the gate refused."""
    stream = Anonymiser(task.schema, policy, seed=seed)
    part = max(policy.delay // PARTS_PER_DELAY, 1)
    tables, moments = [], []
    # A site without rows still learns the types.
    for at in range(0, max(rows.num_rows, 1), part):
        tables.append(stream.push(rows.slice(at, part), now=0.0))
        # Rows released in this part left at the arrival of its first row, or later.
        moments.append(np.full(tables[-1].num_rows, at + 1, dtype=np.int64))
    tables.append(stream.flush(warn=False))
    moments.append(np.full(tables[-1].num_rows, rows.num_rows, dtype=np.int64))
    whole = pa.concat_tables([table.cast(tables[-1].schema) for table in tables])
    return whole, np.concatenate(moments), stream.report().gate_refused


def _time(rows: pa.Table, task: Task, policy: Castle | Citadel) -> float:
    """Processor time of a stream that gets all rows at once, as the other methods do. Its decisions are the same."""
    stream = Anonymiser(task.schema, policy, seed=task.seed)
    start = time.process_time()
    stream.push(rows, now=0.0)
    stream.flush(warn=False)
    return time.process_time() - start


def _warm_up(task: Task, policy: Castle | Citadel) -> None:
    """Load compiled kernels before the clock starts."""
    stream = Anonymiser(task.schema, policy, seed=0)
    stream.push(task.table.slice(0, 1), now=0.0)
    stream.flush(warn=False)


def _boxes(decide: Callable[[Coded, Task], Boxed]) -> Callable[[Task], Outcome]:
    """A method that chooses a box for each row."""

    def publish(task: Task) -> Outcome:
        start = time.process_time()
        coded = read(task.table, task.schema, seed=task.seed)
        boxed = decide(coded, task)
        table = published(coded, boxed, on_grid=task.on_grid)
        seconds = time.process_time() - start
        newest = coded.numbers[boxed.released[boxed.box != NOWHERE] - 1]
        return Outcome(published=table, closed=not task.on_grid, released=newest + 1, seconds=seconds)

    return publish


def _mondrian(coded: Coded, task: Task) -> Boxed:
    return mondrian(coded, k=task.k, l=task.l, delay=task.delay)


def _fads(coded: Coded, task: Task) -> Boxed:
    return fads(coded, k=task.k, l=task.l, delay=task.delay)


def _condensation(coded: Coded, task: Task) -> Boxed:
    """Condensation with the history of CASTLE's comparison, at most a little more than a quarter of the rows."""
    return condensation(coded, k=task.k, history=min(HISTORY, -(-coded.count * 4 // 15)), seed=task.seed)


def _laplace(task: Task) -> Outcome:
    start = time.process_time()
    error = laplace_error(read(task.table, task.schema, seed=task.seed), epsilon=task.epsilon, seed=task.seed)
    return Outcome(published=None, seconds=time.process_time() - start, error=error)


METHODS = tuple(
    Method(key=key, title=title, promise=promise, publish=publish)
    for key, title, promise, publish in (
        (
            "citadel",
            "Citadel",
            "k persons and l values in each release, also if it is known when rows arrived; delay; public grid",
            _citadel("off"),
        ),
        (
            "citadel-narrow",
            "Citadel, narrow reuse",
            "k persons, l values, delay; bounds of the public grid",
            _citadel("narrow"),
        ),
        ("castle", "CASTLE, strict", "k persons, l values, delay; bounds of the public grid", _castle("strict")),
        ("castle-paper", "CASTLE, as printed", "k persons, l values, delay, by the gate", _castle("paper")),
        ("sites-alone", "CASTLE, sites without communication", "k persons, l values, delay, at every site", _alone),
        (
            "dcastle-paper",
            "dCASTLE, as printed",
            "k persons, l values, delay, of all sites together",
            _dcastle_as_printed,
        ),
        ("fads", "FADS", "k persons, l values, delay", _boxes(_fads)),
        ("mondrian", "Mondrian on windows", "k persons, l values, delay", _boxes(_mondrian)),
        ("dynamic-group", "condensation (dynamicGroup)", "k rows; no delay, persons or values", _boxes(_condensation)),
        ("laplace", "Laplace noise on every value", "differential privacy of a row's numbers; no groups", _laplace),
    )
)
"""All methods in the order of the table."""
