"""`castleguard budget`: what parameters promise, and which parameters a promise needs. Reads no data."""

import json
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

if TYPE_CHECKING:
    from castleguard.cli.answers import Answer

_SAMPLING = ("k", "sample_rate", "epsilon", "windows", "total_delta")
_NOISE = ("phi", "distance", "probability")
_ROWS = ("row_epsilon", "rows")


class _Options(NamedTuple):
    """What was given; None is what was not."""

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
        """Those of the options that were given."""
        return [name for name in names if getattr(self, name) is not None]


@click.command(short_help="What do parameters promise, and what does a promise cost?")
@click.option("--k", type=int, help="Sampling: rows that a group must have to be published.")
@click.option("--sample-rate", type=float, help="Sampling: probability with which a row is kept.")
@click.option("--epsilon", type=float, help="Sampling: epsilon of one window.")
@click.option("--delta", type=float, help="Sampling: delta of one window. Rows: delta of all rows together.")
@click.option("--windows", type=click.IntRange(min=1), help="Sampling: windows with rows of the same person.")
@click.option(
    "--total-delta", type=float, help="Sampling: delta of all windows together.  [default: twice the sum of theirs]"
)
@click.option("--phi", type=float, help="Noise: CASTLEGUARD's phi.")
@click.option("--distance", type=float, help="Noise: how far a value may move, as a share of its range.")
@click.option("--probability", type=float, help="Noise: how likely it is to move by less.")
@click.option("--row-epsilon", type=float, help="Rows: epsilon of one row, summed over its columns.")
@click.option("--rows", type=click.IntRange(min=1), help="Rows: rows of one person.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_context
def budget(context: click.Context, /, as_json: bool, **options: int | float | None) -> None:
    """Answer what privacy parameters promise, or which ones a promise needs. It reads no data.

    \b
    Sampling: rows are sampled and groups below k are left out (Theorem 2 of CASTLEGUARD).
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
    Rows: what a person with several randomised rows spends.
      castleguard budget --row-epsilon 0.5 --rows 10 --delta 1e-6
    """
    asked = _Options(**options)  # type: ignore[arg-type]
    if not asked.given(*_Options._fields) and not as_json:
        click.echo(context.get_help())
        return
    answer = _answer(asked)
    click.echo(json.dumps(answer.figures, indent=2) if as_json else answer.text)


def _answer(asked: _Options) -> "Answer":
    """Find out which question was asked, and have it answered."""
    questions = [names for names in (_SAMPLING, _NOISE, _ROWS) if asked.given(*names)]
    if len(questions) > 1:
        first, second = (_option(asked.given(*names)[0]) for names in questions[:2])
        _refuse(f"ask one thing at a time: {first} and {second} belong to different questions")
    if not questions:
        _refuse("nothing is asked: `castleguard budget` without options shows what can be")
    if questions == [_SAMPLING]:
        return _answer_sampling(asked)
    if questions == [_NOISE]:
        return _answer_noise(asked)
    return _answer_rows(asked)


def _answer_sampling(asked: _Options) -> "Answer":
    if asked.sample_rate is None:
        _refuse("--sample-rate is missing: with which probability is a row kept?")
    _check_one_left_out(asked, "k", "epsilon", "delta")
    if asked.total_delta is not None and asked.windows is None:
        _refuse("--total-delta is about several windows: say how many with --windows")
    from castleguard.cli.answers import answer_delta, answer_epsilon, answer_k, answer_sampling

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
        _refuse("--delta does not belong to --phi, --distance and --probability: leave it out")
    _check_one_left_out(asked, *_NOISE)
    from castleguard.cli.answers import answer_noise

    return answer_noise(phi=asked.phi, distance=asked.distance, probability=asked.probability)


def _answer_rows(asked: _Options) -> "Answer":
    if asked.row_epsilon is None:
        _refuse("--row-epsilon is missing: what does one row spend?")
    if asked.rows is None:
        _refuse("--rows is missing: how many rows does a person have?")
    from castleguard.cli.answers import answer_rows

    return answer_rows(epsilon=asked.row_epsilon, rows=asked.rows, total_delta=asked.delta)


def _check_one_left_out(asked: _Options, *names: str) -> None:
    """Two of three have to be given."""
    options = ", ".join(map(_option, names[:2])) + f" and {_option(names[2])}"
    given = len(asked.given(*names))
    if given > 2:
        _refuse(f"leave out one of {options}: it is the answer")
    if given < 2:
        _refuse(f"give two of {options}: the third is the answer")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _refuse(message: str) -> NoReturn:
    raise click.UsageError(message)
