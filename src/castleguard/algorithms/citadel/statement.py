"""The privacy statement of Citadel: what is promised against whom, and what is not."""

from collections.abc import Iterator

from castleguard.algorithms.citadel.policy import Citadel
from castleguard.privacy.guarantee import Guarantee
from castleguard.schema.roles import Schema


def state_promise(policy: Citadel, schema: Schema, *, seeded: bool) -> Guarantee:
    """What the policy promises for a stream of this schema."""
    wait = f"A row leaves no later than {policy.delay} arrivals after its own"
    if policy.max_wait is not None:
        wait += f", and no later than {policy.max_wait:g} s by the clock that is given"
    promise = _fresh(policy, schema) if policy.reuse == "off" else _narrow(policy, schema)
    return Guarantee(
        promise=f"{promise} {_shape(policy, schema)}{wait}.",
        limits=tuple(_limits(policy, schema, seeded=seeded)),
        k=policy.k,
        l=policy.l,
        delay=policy.delay,
        max_wait=policy.max_wait,
    )


def _persons(policy: Citadel, schema: Schema) -> str:
    if schema.person is None:
        return f"at least {policy.k} rows, each taken for a person of its own"
    return f"at least {policy.k} distinct persons, of whom none has more than 1/{policy.k} of the rows"


def _values(policy: Citadel, schema: Schema) -> str:
    if policy.l == 1:
        return ""
    names = " and of ".join(role.name for role in schema.sensitive)
    return f" and at least {policy.l} distinct values of {names}"


def _fresh(policy: Citadel, schema: Schema) -> str:
    return (
        f"Every group of equal quasi-identifiers has, in each release by itself, {_persons(policy, schema)}"
        f"{_values(policy, schema)}. Each row has {policy.k} candidates of {policy.k} persons in its release, also for "
        f"an observer who knows when every row arrived, all quasi-identifiers, the algorithm and every release with "
        f"its time."
    )


def _narrow(policy: Citadel, schema: Schema) -> str:
    return (
        f"Every group of equal quasi-identifiers has, over the whole publication from its first release on, "
        f"{_persons(policy, schema)} in that release{_values(policy, schema)}."
    )


def _shape(policy: Citadel, schema: Schema) -> str:
    """What is promised about the distribution of sensitive values, as a sentence."""
    asked = []
    if policy.diversity == "entropy":
        asked.append(f"an entropy of at least ln {policy.l}")
    if policy.diversity == "recursive":
        asked.append(f"recursive ({policy.c:g}, {policy.l})-diversity")
    if policy.closeness is not None:
        asked.append(str(policy.closeness))
    if not asked:
        return ""
    names = " and of ".join(role.name for role in schema.sensitive)
    return (
        f"In each group of each release the values of {names}, a person counted once for a value, have "
        f"{' and '.join(asked)}. "
    )


def _limits(policy: Citadel, schema: Schema, *, seeded: bool) -> Iterator[str]:
    """What is not promised, a sentence each."""
    yield "Not promised: differential privacy"
    if policy.reuse == "off":
        yield (
            "a value that a person keeps over several rows, even in one release (intersection); anything against "
            "someone who adds rows or persons, or knows values of others; presence; different values within a group "
            "unless l is asked."
        )
    else:
        yield (
            "anything against someone who knows when a row arrived: a row that joins a published box leaves alone, and "
            "that observer learns its values (the report counts these rows as reused)."
        )
    if policy.l > 1 or policy.criteria.judges_shape:
        yield (
            "With a prior that is exchangeable within the group, each person's posterior is the frequency in the "
            "group. Not claimed: unequal priors; joint facts; that suppressed rows lack the criteria."
        )
    yield "Publishing the same rows by a second run, key or policy voids the promise: a row in two groups is in both."
    if policy.closeness is not None and policy.closeness.reference != "public":
        yield "Closeness is promised at the moment of a release only: the distribution of all rows moves on."
    if schema.public:
        yield (
            f"Published as they are, outside the promise, and telling rows of a release apart: "
            f"{', '.join(schema.public)}."
        )
    if seeded:
        yield "SEEDED: the choices and the order of rows can be predicted; for tests and experiments only."
