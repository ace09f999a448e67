"""Reference page of all parameters in Markdown, generated from the algorithms' declarations."""

from collections.abc import Iterator, Sequence

from castleguard.algorithms.lookup import built_in, find
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.single_parameters import default_words, single_type
from castleguard.config.docstrings import summary
from castleguard.privacy.parameter_fields import Parameter, parameters_of

COMMAND = "castleguard schema --parameters --output docs/reference/parameters.md"

_TYPES = {
    "count": "whole number",
    "number": "number",
    "length": "duration, or whole number of rows",
    "seconds": "duration",
    "flag": "true or false",
    "text": "text",
    "shares": "numbers by column",
    "number or shares": "number, or numbers by column",
}
_HEAD = f"""# Parameters

Generated from the algorithms by `{COMMAND}`: do not edit.

A parameter has the same name in [Python](python.md) (`cg.Castle(k=10, delay=1000)`), in the `privacy` section of a
[job file](job.md#privacy), and as an option of every [command](cli.md) that takes a policy (`--max-clusters 50`).
Durations are seconds, or text such as `30s` in a job file and on the command line. `max_wait` and windows of seconds
need a clock. Numbers by column are a mapping, `age=2,job=1` on the command line.

Parameters with parts are a class in Python (`cg.Closeness(t=0.3)`) and a mapping in a job file
(`closeness: {{t: 0.3}}`); on the command line each part is an option (`--t 0.3`).
"""


def parameter_page(algorithms: Sequence[str] = ()) -> str:
    """The page for the built-in algorithms and these plug-ins."""
    names = list(dict.fromkeys((*built_in(), *algorithms)))
    policies = {name: find(name) for name in names}
    sections = [_HEAD]
    nested: dict[str, type] = {}
    for name, policy in policies.items():
        sections.append("\n".join(_algorithm(name, policy, policies)))
        nested |= {each.name: each.nested for each in parameters_of(policy) if each.nested is not None}
    for field, kind in nested.items():
        rows = _table(parameters_of(kind))
        sections.append("\n".join([f"## {field}\n", f"`{kind.__name__}`. {summary(kind)}\n", *rows, ""]))
    return "\n".join(sections)


def _algorithm(name: str, policy: type[Policy], policies: dict[str, type[Policy]]) -> Iterator[str]:
    parents = [other for other, kind in policies.items() if kind is not policy and issubclass(policy, kind)]
    yield f"## {name}\n"
    yield f"`{policy.__name__}`. {summary(policy)}\n"
    own = parameters_of(policy)
    if parents:
        inherited = parameters_of(policies[parents[-1]])
        own = tuple(each for each in own if each not in inherited)
        yield f"It has the parameters of [{parents[-1]}](#{parents[-1]}), and these:\n"
    yield from _table(own)
    yield ""


def _table(parameters: Sequence[Parameter]) -> Iterator[str]:
    yield "| parameter | default | allowed | meaning |"
    yield "|---|---|---|---|"
    for each in parameters:
        cells = (f"`{each.name}`{_option(each)}", _default(each), _allowed(each), each.declared.text)
        yield f"| {' | '.join(cells)} |"


def _option(each: Parameter) -> str:
    """The option, if it differs from the parameter's name."""
    option = each.declared.option
    return f" (`--{option.replace('_', '-')}`)" if option else ""


def _default(each: Parameter) -> str:
    words = default_words(each)
    return words if each.required or each.default is None else f"`{words}`"


def _allowed(each: Parameter) -> str:
    if each.choices:
        return ", ".join(f"`{choice}`" for choice in each.choices)
    if each.nested is not None:
        return f"[{each.name}](#{each.name})"
    kind = single_type(each)
    about = each.declared
    bounds = [
        f"at least {about.least:g}" if about.least is not None else "",
        f"above {about.above:g}" if about.above is not None else "",
        each.upper_words(),
    ]
    return ", ".join(filter(None, ["mapping" if kind is None else _TYPES[kind], *bounds]))
