"""`castleguard budget`: privacy loss of given parameters, or parameters for a given loss. Reads no data."""

import json
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

from castleguard.cli.file_options import json_option

if TYPE_CHECKING:
    from castleguard.cli.budget_answers import Answer

_SAMPLING = ("k", "sample_rate", "epsilon", "windows", "total_delta")
_NOISE = ("phi", "distance", "probability")
_ROWS = ("row_epsilon", "rows")


class _Options(NamedTuple):
    """The options; None for those that were not given."""

    k: int | None
    sample_rate: float | None
    epsilon: float | None
    delta: float | None
    windows: int | None
    total_delta: float | None
    phi: float | None
    distance: float | None
    probability: float | None
    row_epsilon: float | None
    rows: int | None

    def given(self, *names: str) -> list[str]:
        """Names of the options that were given."""
        return [name for name in names if getattr(self, name) is not None]


@click.command(short_help="Compute the guarantee of privacy parameters, or the parameters for a guarantee.")
@click.option("--k", type=int, help="Sampling: minimum number of rows of a published group.")
@click.option("--sample-rate", type=float, help="Sampling: probability that a row is kept.")
@click.option("--epsilon", type=float, help="Sampling: epsilon of one window.")
@click.option("--delta", type=float, help="Sampling: delta of one window. Rows: delta of all rows together.")
@click.option(
    "--windows", type=click.IntRange(min=1), help="Sampling: number of windows with a row of the same person."
)
@click.option(
    "--total-delta",
    type=float,
    help="Sampling: delta of all windows together.  [default: twice the sum of their deltas]",
)
@click.option("--phi", type=float, help="Noise: CASTLEGUARD's phi.")
@click.option("--distance", type=float, help="Noise: distance that a value moves, as a share of its range.")
@click.option("--probability", type=float, help="Noise: probability that a value moves by less than the distance.")
@click.option("--row-epsilon", type=float, help="Rows: epsilon of one row, all columns together.")
@click.option("--rows", type=click.IntRange(min=1), help="Rows: number of rows of one person.")
@json_option
@click.pass_context
def budget(context: click.Context, /, as_json: bool, **options: int | float | None) -> None:
    """Compute the guarantee of privacy parameters, or the parameters for a guarantee. Reads no data.

    \b
    Sampling: rows are sampled, groups below k are suppressed (Theorem 2 of CASTLEGUARD).
    Give the sample rate and two of k, epsilon and delta; the third is the answer.
      castleguard budget --k 20 --sample-rate 0.25 --epsilon 1
      castleguard budget --sample-rate 0.1 --epsilon 1 --delta 1e-6
      castleguard budget --k 20 --sample-rate 0.25 --delta 1e-6
      castleguard budget --k 20 --sample-rate 0.25 --epsilon 0.5 --windows 24

    \b
    Noise: how far values move (Theorem 1 of CASTLEGUARD).
    Give two of phi, distance and probability; the third is the answer.
      castleguard budget --phi 100 --distance 0.05
      castleguard budget --probability 0.9 --distance 0.05

    \b
    Rows: privacy loss of a person with several randomised rows.
      castleguard budget --row-epsilon 0.5 --rows 10 --delta 1e-6
    """
    asked = _Options(**options)  # type: ignore[arg-type]
    if not asked.given(*_Options._fields) and not as_json:
        click.echo(context.get_help())
        return
    answer = _answer(asked)
    click.echo(json.dumps(answer.figures, indent=2) if as_json else answer.text)


def _answer(asked: _Options) -> "Answer":
    """Answer the question that the options ask."""
    questions = [names for names in (_SAMPLING, _NOISE, _ROWS) if asked.given(*names)]
    if len(questions) > 1:
        first, second = (_option(asked.given(*names)[0]) for names in questions[:2])
        _refuse(f"{first} and {second} belong to different questions: ask one at a time")
    if not questions:
        _refuse("nothing to compute: run `castleguard budget` without options to see examples")
    if questions == [_SAMPLING]:
        return _answer_sampling(asked)
    if questions == [_NOISE]:
        return _answer_noise(asked)
    return _answer_rows(asked)


def _answer_sampling(asked: _Options) -> "Answer":
    if asked.sample_rate is None:
        _refuse("--sample-rate is missing: the probability that a row is kept")
    _check_one_left_out(asked, "k", "epsilon", "delta")
    if asked.total_delta is not None and asked.windows is None:
        _refuse("--total-delta needs --windows, the number of windows")
    from castleguard.cli.budget_answers import answer_delta, answer_epsilon, answer_k, answer_sampling

    k, rate, epsilon, delta = asked.k, asked.sample_rate, asked.epsilon, asked.delta
    if k is not None and epsilon is not None:
        name, solved = "dp_delta", answer_delta(k=k, sample_rate=rate, epsilon=epsilon)
    elif epsilon is not None and delta is not None:
        name, solved = "k", answer_k(sample_rate=rate, epsilon=epsilon, dp_delta=delta)
    else:
        assert k is not None
        assert delta is not None
        name, solved = "epsilon", answer_epsilon(k=k, sample_rate=rate, dp_delta=delta)
    return answer_sampling(name, solved, windows=asked.windows, total_delta=asked.total_delta)


def _answer_noise(asked: _Options) -> "Answer":
    if asked.delta is not None:
        _refuse("--delta cannot be combined with --phi, --distance and --probability: remove it")
    _check_one_left_out(asked, *_NOISE)
    from castleguard.cli.budget_answers import answer_noise

    return answer_noise(phi=asked.phi, distance=asked.distance, probability=asked.probability)


def _answer_rows(asked: _Options) -> "Answer":
    if asked.row_epsilon is None:
        _refuse("--row-epsilon is missing: the epsilon of one row")
    if asked.rows is None:
        _refuse("--rows is missing: the number of rows of one person")
    from castleguard.cli.budget_answers import answer_rows

    return answer_rows(epsilon=asked.row_epsilon, rows=asked.rows, total_delta=asked.delta)


def _check_one_left_out(asked: _Options, *names: str) -> None:
    """Refuse options unless exactly two of the three are given."""
    options = ", ".join(map(_option, names[:2])) + f" and {_option(names[2])}"
    given = len(asked.given(*names))
    if given > 2:
        _refuse(f"remove one of {options}: it is the answer")
    if given < 2:
        _refuse(f"give two of {options}: the third is the answer")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _refuse(message: str) -> NoReturn:
    raise click.UsageError(message)
