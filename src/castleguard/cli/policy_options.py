"""Options of the policies, generated from the parameters that they declare.

The options are built when a command is parsed or prints its help, so that `castleguard --help` loads no algorithm. A
plug-in is loaded only if `--algorithm` names it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from castleguard.algorithms.policy import Policy
    from castleguard.algorithms.single_parameters import Single

_DEFAULT = "castle"
_NAMED = "castleguard.algorithm"  # key in the meta of a click context


class CommaList(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on only
    """Comma-separated values of one type; repeated values count once."""

    def __init__(self, kind: "click.ParamType[Any]") -> None:
        self.kind = kind
        self.name = f"{kind.name}s"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The form in the help."""
        return "LIST" if not isinstance(self.kind, click.Choice) else f"[{'|'.join(self.kind.choices)}],..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """The values in their order."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(parts):
            self.fail("an empty value between commas", param, ctx)
        return tuple(dict.fromkeys(self.kind.convert(part, param, ctx) for part in parts))


class _Duration(click.ParamType):  # type: ignore[type-arg]
    """Seconds, as a number or as 500ms, 30s, 5m, 2h, 1d; with `whole`, a plain whole number stays an int (rows)."""

    name = "duration"

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number of seconds, or of rows."""
        from castleguard.runtime.durations import parse_duration

        if self._whole and str(value).isdecimal():
            return int(value)
        try:
            return float(value)
        except ValueError:
            pass
        try:
            return parse_duration(str(value))
        except ValueError as exc:
            self.fail(str(exc), param, ctx)


class _Shares(click.ParamType):  # type: ignore[type-arg]
    """Numbers by column: age=2,job=1; with `alone`, also one number for all columns."""

    name = "shares"

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The form in the help."""
        return "FLOAT|COLUMN=FLOAT,..." if self._alone else "COLUMN=FLOAT,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """One number, or numbers by column."""
        if not isinstance(value, str):
            return value
        if self._alone and "=" not in value:
            return self._number(value, param, ctx)
        shares = {}
        for part in value.split(","):
            column, _, number = part.rpartition("=")
            if not column:
                self.fail(f"must have the form age=2,job=1, got {value}", param, ctx)
            shares[column.strip()] = self._number(number, param, ctx)
        return shares

    def _number(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return float(text)
        except ValueError:
            self.fail(f"{text!r} is not a number", param, ctx)


_TYPES: "dict[str, click.ParamType[Any]]" = {
    "count": click.INT,
    "number": click.FLOAT,
    "length": _Duration(whole=True),
    "seconds": _Duration(whole=False),
    "flag": click.BOOL,
    "shares": _Shares(alone=False),
    "number or shares": _Shares(alone=True),
}
"""By type of the parameter; others are texts."""


class PolicyCommand(click.Command):
    """Command with the parameters of all built-in single-stream algorithms, and of a named plug-in, as options.

    `only`: parameters of this algorithm alone. `without`: excluded parameters. `lists`: options take several values.
    """

    def __init__(
        self, *args: Any, only: str | None = None, without: Sequence[str] = (), lists: bool = False, **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self._only = only
        self._without = without
        self._lists = lists

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the algorithm first, because the options depend on it."""
        ctx.meta[_NAMED] = _named(args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own options, and the parameters of the algorithms."""
        made = self._options(ctx)
        return [*made.own, *(each.option for each in made.parameters)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then a section for each set of parameters that algorithms share.

        If an algorithm is named, only its parameters are shown.
        """
        made = self._options(ctx)
        names = ctx.meta[_NAMED]
        named = names[0] if len(names) == 1 else None
        with formatter.section("Options"):
            formatter.write_dl(list(_records(made.own, ctx)))
        sections: dict[tuple[str, ...], list[click.Parameter]] = {}
        for each in made.parameters:
            owners = tuple(each.owners)
            if named is None or named not in made.algorithms:
                sections.setdefault(owners, []).append(each.option)
            elif named in owners:
                alone = _Offer({named: each.owners[named]}, lists=self._lists)
                sections.setdefault((named,), []).append(alone.option)
        for owners, options in sections.items():
            with formatter.section(f"Parameters of {_listed(owners)}"):
                formatter.write_dl(list(_records(options, ctx)))

    def _options(self, ctx: click.Context) -> "_Options":
        """The options, built once per context."""
        key = f"{_NAMED}.{self.name}"
        if key not in ctx.meta:
            *own, help_option = super().get_params(ctx)
            algorithms = self._algorithms(ctx.meta[_NAMED])
            choice = [] if self._only else [_choice(lists=self._lists)]
            own = [*own, *choice, help_option]
            ctx.meta[key] = _Options(own, algorithms, list(self._offers(algorithms, own)))
        made: _Options = ctx.meta[key]
        return made

    def _algorithms(self, named: Sequence[str]) -> list[str]:
        """Algorithms whose parameters are options; loads a plug-in only if it is named."""
        from castleguard.algorithms.lookup import built_in, find, names

        if self._only is not None:
            return [self._only]
        offered = [name for name in built_in() if not find(name).several_sites]
        plugged = [name for name in names() if name in named and name not in built_in()]
        for name in plugged:
            if find(name).several_sites:
                raise click.UsageError(f"{name} is for several sites: use a job file with a sites section")
        return [*offered, *plugged]

    def _offers(self, algorithms: Sequence[str], own: Sequence[click.Parameter]) -> "Iterator[_Offer]":
        """The parameters as options, without repetitions, in the order of the algorithms."""
        taken = {name for each in own for name in (each.name, *each.opts)}
        owners: dict[str, dict[str, Single]] = {}
        for algorithm in algorithms:
            for single in _singles(algorithm, self._without):
                if single.option in taken or single.name in taken:
                    raise click.UsageError(
                        f"the parameter {single.name} of {algorithm} clashes with an option of this command: use a job "
                        f"file"
                    )
                if not (self._lists and single.type == "shares"):
                    owners.setdefault(single.name, {})[algorithm] = single
        for of in owners.values():
            yield _Offer(of, lists=self._lists)


class _Offer:
    """A parameter of one or more algorithms, as an option."""

    def __init__(self, owners: "dict[str, Single]", *, lists: bool) -> None:
        self.owners = owners
        first = next(iter(owners.values()))
        name, flag = first.option, first.type == "flag" and not lists
        self.option = click.Option(
            [f"{name}/--no-{name.removeprefix('--')}" if flag else name, first.name],
            type=None if flag else self._list_type() if lists else self._type(),
            default=None,
            help=f"{_merge_texts(owners, lambda single: single.declared.text, end=' ')}  [{self._default()}]".lstrip(),
        )

    def _type(self) -> "click.ParamType[Any]":
        """The type of a value. If choices differ, the option offers all of them, and the policy refuses the others'."""
        singles = list(self.owners.values())
        if singles[0].type != "choice":
            return _TYPES.get(singles[0].type, click.STRING)
        return click.Choice(list(dict.fromkeys(choice for single in singles for choice in single.parameter.choices)))

    def _list_type(self) -> CommaList:
        first = next(iter(self.owners.values()))
        return CommaList(click.FLOAT if first.type == "number or shares" else self._type())

    def _default(self) -> str:
        words = _merge_texts(self.owners, lambda single: single.default_words(), end="; ")
        return words if words.startswith("required") else f"default: {words}"


class _Options(NamedTuple):
    """The options of one invocation."""

    own: list[click.Parameter]
    algorithms: list[str]
    parameters: list[_Offer]


def make_policy(algorithm: str, options: dict[str, Any]) -> "Policy":
    """The policy for these options. Raises UsageError for an option that it does not have, or that is missing."""
    from castleguard.algorithms.lookup import find
    from castleguard.algorithms.single_parameters import missing_parts, nest, singles_of
    from castleguard.errors import PolicyError
    from castleguard.privacy.parameter_fields import parameters_of

    kind = find(algorithm)
    known = singles_of(kind)
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known:
            raise click.UsageError(
                f"{algorithm} has no option --{name.replace('_', '-')}: remove it, or choose another --algorithm"
            )
    lacking = missing_parts(kind, given)
    if lacking is not None:
        needed = _listed([known[name].option for name in lacking[1]])
        raise click.UsageError(f"{known[lacking[0]].option} needs {needed}")
    try:
        completed = kind.for_file(given)
    except PolicyError as exc:
        raise click.UsageError(str(exc)) from exc
    for single in known.values():
        if single.required and single.name not in completed:
            raise click.UsageError(f"{single.option} is missing: {algorithm} has no default for it")
    arguments = nest(kind, completed)
    for each in parameters_of(kind):
        if each.required and each.name not in arguments:
            raise click.UsageError(f"{algorithm} needs {each.name}, which has no option: use a job file")
    return kind(**arguments)


def _choice(*, lists: bool) -> click.Option:
    """The option --algorithm. Plug-ins are listed without being loaded."""
    from castleguard.algorithms.lookup import built_in, find, names

    known = [name for name in names() if name not in built_in() or not find(name).several_sites]
    summaries = "; ".join(f"{name}: {find(name).summary}" for name in known if name in built_in())
    help = f"{summaries}. Add --help to see only the parameters of this algorithm."
    kind = CommaList(click.Choice(known)) if lists else click.Choice(known)
    return click.Option(["--algorithm"], type=kind, default=_DEFAULT, show_default=True, help=help)


def _records(parameters: Iterable[click.Parameter], ctx: click.Context) -> Iterator[tuple[str, str]]:
    for each in parameters:
        record = each.get_help_record(ctx)
        if record is not None and not isinstance(each, click.Argument):
            yield record


def _named(args: Sequence[str]) -> list[str]:
    """Algorithms named in the arguments."""
    found = ""
    for at, text in enumerate(args):
        if text == "--":
            break
        if text == "--algorithm" and at + 1 < len(args):
            found = args[at + 1]
        elif text.startswith("--algorithm="):
            found = text.partition("=")[2]
    return [name for part in found.split(",") if (name := part.strip())]


def _singles(algorithm: str, without: Sequence[str]) -> "Iterator[Single]":
    from castleguard.algorithms.lookup import find
    from castleguard.algorithms.single_parameters import singles_of

    for single in singles_of(find(algorithm)).values():
        if single.name not in without and single.within not in without:
            yield single


def _merge_texts(owners: "Mapping[str, Single]", text_of: "Callable[[Single], str]", *, end: str) -> str:
    """The text of the first owner, then the texts that differ, each with the names of its owners."""
    names_by_text: dict[str, list[str]] = {}
    for name, single in owners.items():
        names_by_text.setdefault(text_of(single), []).append(name)
    first, *others = names_by_text
    return end.join([first, *(f"{_listed(names_by_text[text])}: {text}" for text in others)])


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
