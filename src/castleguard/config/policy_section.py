"""The privacy section: `{algorithm: castle, k: 10, delay: 1000, ...}`, an algorithm and its parameters."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from castleguard.algorithms.lookup import built_in, find, names
from castleguard.algorithms.policy import Policy
from castleguard.config.document import Place
from castleguard.config.problems import Problem, explain, suggest
from castleguard.config.secrets import FromEnvironment
from castleguard.config.sections import Section, section_model
from castleguard.errors import PolicyError
from castleguard.privacy.parameter_fields import parameters_of


def policy_model(algorithm: str) -> type[Section]:
    """Model of the parameters of an algorithm."""
    return section_model(find(algorithm))


def build_policy(data: Any, section: Place, problems: list[Problem]) -> Policy | None:
    """The policy; None if the section has problems, which are appended."""
    if not isinstance(data, dict):
        problems.append(Problem(section, "must be a mapping: {algorithm: castle, k: 10, delay: 1000}"))
        return None
    given = dict(data)
    algorithm = given.pop("algorithm", None)
    if not isinstance(algorithm, str) or algorithm not in names():
        problems.append(Problem((*section, "algorithm"), _unknown_algorithm(algorithm)))
        return None
    try:
        model, before = policy_model(algorithm), len(problems)
    except PolicyError as exc:  # a plug-in that cannot be loaded
        problems.append(Problem((*section, "algorithm"), f"cannot be used: {exc}"))
        return None
    for key in [key for key in given if key not in model.names()]:
        problems.append(Problem((*section, key), _unknown_parameter(key, algorithm)))
        del given[key]
    for each in parameters_of(model.builds):
        unit = given.get(each.declared.unit_from, "seconds") if each.declared.unit_from else "seconds"
        if unit != "seconds" and type(given.get(each.name)) is str:
            sentence = f"must be a whole number of {unit}, because {each.declared.unit_from} is {unit}"
            problems.append(Problem((*section, each.name), sentence))
            return None
    try:
        entry = model.model_validate(_with_missing(given))
    except ValidationError as exc:
        problems += explain(exc, model.known_keys(), section)
        return None
    policy: Policy | None = entry.build(section, problems, Path())
    return policy if len(problems) == before else None


def _unknown_algorithm(algorithm: object) -> str:
    known = ", ".join(names())
    if algorithm is None:
        return f"is missing: one of {known}"
    if isinstance(algorithm, str) and not isinstance(algorithm, FromEnvironment):
        return f"must be one of {known}, got {algorithm!r}; {suggest(algorithm, names())}"
    return f"must be one of {known}"


def _unknown_parameter(key: str, algorithm: str) -> str:
    owners = [name for name in built_in() if key in policy_model(name).names()]
    if owners:
        return f"is not a parameter of {algorithm}, only of {' and '.join(owners)}: delete it"
    return f"is not a known key; {suggest(key, ('algorithm', *policy_model(algorithm).names()))}"


def _with_missing(given: dict[str, Any]) -> dict[str, Any]:
    """Turn the key `null` among the public shares of values, which is text in a file, into a missing value."""
    closeness = given.get("closeness")
    if not isinstance(closeness, dict) or not isinstance(closeness.get("public"), dict):
        return given
    shares = {
        column: {None if label == "null" else label: share for label, share in values.items()}
        if isinstance(values, dict)
        else values
        for column, values in closeness["public"].items()
    }
    return {**given, "closeness": {**closeness, "public": shares}}
