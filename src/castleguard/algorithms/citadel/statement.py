"""Privacy statement of Citadel: promises, the observers they hold against, and limits."""

from collections.abc import Iterator

from castleguard.algorithms.citadel.policy import Citadel
from castleguard.privacy.guarantee import Guarantee
from castleguard.schema.roles import Schema


def state_promise(policy: Citadel, schema: Schema, *, seeded: bool) -> Guarantee:
    """Build the privacy statement for a stream of this schema."""
    wait = f"A row leaves no later than {policy.delay} arrivals after its own"
    if policy.max_wait is not None:
        wait += f", and no later than {policy.max_wait:g} s by the given clock"
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
        return f"at least {policy.k} rows, each counted as a different person"
    return f"at least {policy.k} distinct persons, of whom none has more than 1/{policy.k} of the rows"


def _values(policy: Citadel, schema: Schema) -> str:
    if policy.l == 1:
        return ""
    names = " and of ".join(role.name for role in schema.sensitive)
    return f", and at least {policy.l} distinct values of {names}"


def _fresh(policy: Citadel, schema: Schema) -> str:
    promise = (
        f"Every group of equal quasi-identifiers has, in each release by itself, {_persons(policy, schema)}"
        f"{_values(policy, schema)}."
    )
    return (
        f"{promise} Each row has {policy.k} candidates of {policy.k} persons in its release, also for an observer who "
        f"knows when every row arrived, all quasi-identifiers, the algorithm and every release with its time, but "
        f"neither the draws nor the sensitive values."
    )


def _reference_moves(policy: Citadel) -> bool:
    """Whether groups are compared with the rows of earlier releases."""
    return policy.closeness is not None and policy.closeness.reference != "public"


def _narrow(policy: Citadel, schema: Schema) -> str:
    return (
        f"Every group of equal quasi-identifiers has, over the whole publication from its first release on, "
        f"{_persons(policy, schema)} in that release{_values(policy, schema)}."
    )


def _shape(policy: Citadel, schema: Schema) -> str:
    """Promise about the distribution of sensitive values, as a sentence; empty without one."""
    asked = policy.value_criteria()
    if not asked:
        return ""
    names = " and of ".join(role.name for role in schema.sensitive)
    return f"In each group of each release the values of {names}, over all its rows, have {' and '.join(asked)}. "


def _limits(policy: Citadel, schema: Schema, *, seeded: bool) -> Iterator[str]:
    """Limits of the guarantee, in sentences."""
    if policy.reuse == "narrow":
        yield (
            "Narrow reuse promises k over the whole publication, and nothing against someone who knows when a row "
            "arrived: a reused row leaves alone, and that observer knows its values (the report counts these rows as "
            "reused)."
        )
    yield (
        "Not promised: a value that a person keeps over several rows, even in one release (intersection); anything "
        "against someone who adds rows or persons, or knows values of others; presence; different values within a "
        "group unless l is asked."
    )
    yield "Not promised: differential privacy."
    if policy.reuse == "off":
        yield from _observer_limits(schema)
        if policy.l > 1 or policy.criteria.judges_shape:
            yield from _value_limits()
    yield (
        "Every release is published once: publishing the same rows by a second run, key or policy voids the promise, "
        "because a row published in two groups must be one of the rows that both contain."
    )
    if _reference_moves(policy):
        yield (
            "Closeness is promised only at the moment of a release: the distribution of the rows that have left "
            "changes later. Rows that leave before the burn-in are suppressed."
        )
    if schema.public:
        yield f"Published as they are, outside the promise: {', '.join(schema.public)}."
    if seeded:
        yield "SEEDED: the choices and the order of rows can be predicted; for tests and experiments only."


def _observer_limits(schema: Schema) -> Iterator[str]:
    """Columns that void the promise against an observer who knows when rows arrived, in a sentence."""
    moments = [role.name for role in schema.sensitive if role.kind != "number" or role.type in ("date", "timestamp")]
    revealing = [*schema.public, *moments]
    if revealing:
        yield (
            f"Void against an observer who knows arrival times: {', '.join(revealing)} can distinguish the rows of a "
            f"release. So can any column that reveals a time or a sequence."
        )
    else:
        yield "Void against an observer who knows arrival times if a sensitive column reveals a time or a sequence."


def _value_limits() -> Iterator[str]:
    """Limits of what is promised about sensitive values, in sentences."""
    yield (
        "Under a prior that is exchangeable within the group, each person's posterior is the frequency in the group. "
        "Not claimed: unequal priors; joint facts; groups of a release that share a box, of which only the sum is seen."
    )
    yield (
        "Suppressed rows are not protected: an observer who misses them in a release learns that their values fail "
        "the criteria (with l=2: that all have one value)."
    )
