"""The guarantee of a sharded stream, and the plans that are refused because they have none.

Every shard is a separate stream with its own engine, gate and keys; shards never communicate. Each therefore keeps the
guarantee of its policy. This module decides which guarantees hold for all shards together, and what the shard of a row
reveals. `check` is called before anything starts. The proofs are in docs/proofs/shards.md.
"""

from collections.abc import Iterator
from dataclasses import replace

from castleguard.algorithms.facts import ShardPromise
from castleguard.algorithms.policy import Policy
from castleguard.errors import PolicyError, SchemaError
from castleguard.privacy.guarantee import DifferentialPrivacy, Guarantee
from castleguard.schema.roles import Numeric, Schema
from castleguard.shards.plan import Plan
from castleguard.shards.routing import LocalityRoute
from castleguard.stream import Anonymiser

OWN_COLUMNS = ("outcome", "shard", "place", "detail")
"""Columns of the output besides the published ones."""


def check(plan: Plan, *, streaming: bool) -> None:
    """Raise PolicyError or SchemaError if the plan has no guarantee, or a host cannot run it."""
    _check_host(plan, streaming)
    _check_position(plan)
    _check_output(plan)
    if plan.shards > 1:
        _check_route(plan)
    # Construct what each shard will be: other errors of schema or policy are raised here, not in a worker.
    Anonymiser(plan.schema, plan.policy, seed=plan.seed, numbers=plan.numbers)


def guarantee(plan: Plan, *, streaming: bool) -> Guarantee:
    """Return the guarantee of all shards together. Raises as `check` does."""
    check(plan, streaming=streaming)
    own = plan.policy.guarantee(plan.schema, seeded=plan.seed is not None)
    together = f" {_joint_promise(plan)}" if plan.shards > 1 else ""
    return replace(
        own,
        promise=f"{own.promise}{together}",
        limits=(*own.limits, *_limits(plan, own, streaming)),
        privacy=None if own.privacy is None else _claim(plan, own.privacy, streaming),
    )


def _check_host(plan: Plan, streaming: bool) -> None:
    refused = plan.policy.sharded(plan.schema, streaming=streaming).refused
    if refused is not None:
        raise PolicyError(refused)
    if plan.policy.chosen_order == "input":
        raise PolicyError("order='input' cannot be kept: the output of several shards has no order; use 'shuffled'")
    if streaming and plan.policy.max_wait is None:
        raise PolicyError(
            "a stream needs max_wait, the seconds after which a row leaves: a shard that gets no more rows would keep "
            "its pending rows forever"
        )


def _check_position(plan: Plan) -> None:
    declared = {name.casefold() for name in plan.schema.columns}
    for name in plan.position:
        if name.casefold() in declared:
            raise SchemaError(
                f"column {name!r} is declared in the schema and cannot be a position: the operator sees the position "
                f"of a rejected row, but must not see its values; use a column that is not declared"
            )


def _check_output(plan: Plan) -> None:
    """Refuse published columns whose names collide. Hosts compare names without case."""
    taken = dict.fromkeys(OWN_COLUMNS, "a column that castleguard adds")
    for name in _published(plan):
        other = taken.setdefault(name.casefold(), f"column {name!r}")
        if other != f"column {name!r}":
            raise SchemaError(f"published column {name!r} has the same name as {other}: rename it")


def _published(plan: Plan) -> list[str]:
    boxes = [field.name for field in plan.policy.encoder(plan.schema, plan.numbers).fields]
    return [*boxes, *(role.name for role in plan.schema.sensitive), *plan.schema.public]


def _check_route(plan: Plan) -> None:
    schema, policy = plan.schema, plan.policy
    read = _values_read(plan)
    if read and policy.draws_noise:
        raise PolicyError(
            f"rows are routed to shards by {', '.join(read)} without noise, and the shard of a row is visible: "
            f"{_alternative(schema, policy)}"
        )
    _check_values_read(plan, read)
    if read and _compares_with_rows(plan):
        raise PolicyError(
            f"closeness to the rows of a shard means little where shards are made by {', '.join(read)}: the rows of a "
            f"shard may differ from all rows; route rows by person, or compare with reference='public'"
        )
    if _persons_stay_together(plan):
        return
    if _facts(plan).counts_persons:
        raise PolicyError(
            "the bound on a person's rows holds within a shard: all rows of a person must be in one shard, so route "
            "them by person"
        )
    if hides_presence(schema, policy):
        raise PolicyError(
            "the presence of a row cannot be hidden if rows are routed to shards by position, because one more row "
            "moves all later rows: declare a person column and route rows by person, or use shards=1"
        )


def _check_values_read(plan: Plan, read: list[str]) -> None:
    """Allow routing by values only if the shard reveals nothing but a public range that contains the row."""
    quasi = {role.name: role for role in plan.schema.quasi_identifiers}
    for name in read:
        role = quasi.get(name)
        if role is None:
            raise PolicyError(
                f"rows are routed to shards by {name!r}, which is not a quasi-identifier: the shard of a row is "
                f"visible and would exclude sensitive or public values; use route='locality', or route rows by person "
                f"or by position"
            )
        if isinstance(role, Numeric) and role.domain is None:
            raise SchemaError(
                f"rows are routed to shards by {name!r}, which has no lower and upper: cut points taken from the rows "
                f"would reveal them; declare both, or route rows by person"
            )
    if read and not isinstance(plan.route, LocalityRoute):
        raise PolicyError(
            f"rows are routed to shards by the exact values of {', '.join(read)}, and the shard of a row is visible: "
            f"few values of a published range would match it; use route='locality', or declare a person column or a "
            f"position"
        )


def _values_read(plan: Plan) -> list[str]:
    """Return the columns that determine the shard of a row, besides person and position."""
    return [name for name in plan.route.columns if name != plan.schema.person and name not in plan.position]


def _alternative(schema: Schema, policy: Policy) -> str:
    """Suggest another route for a policy with noise."""
    if schema.person is not None:
        return "route them by person (route='hash')"
    if hides_presence(schema, policy):
        return "declare a person column, or use shards=1"
    return "declare a person column or a position that does not depend on values, or use shards=1"


def _facts(plan: Plan) -> ShardPromise:
    """Return the policy's own statement about shards."""
    return plan.policy.sharded(plan.schema, streaming=False)


def _compares_with_rows(plan: Plan) -> bool:
    """Whether closeness compares groups with rows of the stream."""
    closeness = _facts(plan).closeness
    return closeness is not None and closeness.reference != "public"


def _persons_stay_together(plan: Plan) -> bool:
    """Whether all rows of a person are guaranteed to be in one shard."""
    return plan.shards == 1 or set(plan.route.columns) <= {plan.schema.person}


def hides_presence(schema: Schema, policy: Policy) -> bool:
    """Whether neighbouring inputs differ in the presence of a row or person, not only in values."""
    return policy.sharded(schema, streaming=False).hides_presence


def _joint_promise(plan: Plan) -> str:
    """State what the promises of the shards amount to together."""
    each = f"Each of the {plan.shards} shards keeps this by itself"
    persons_apart = plan.schema.person is None or _persons_stay_together(plan)
    if _compares_with_rows(plan) or (_facts(plan).judges_shape and not persons_apart):
        return f"{each}; for all together k and l hold, and nothing is promised about the distribution of their values."
    return f"{each}, and so do all of them together."


def _claim(plan: Plan, own: DifferentialPrivacy, streaming: bool) -> DifferentialPrivacy:
    """Return the claim of one shard; a stream excludes micro-batches, because a shard begins with its first row."""
    if not (streaming and hides_presence(plan.schema, plan.policy)):
        return own
    outside = "the micro-batch in which a row is published, and names, numbers and times of files"
    return replace(own, uncovered=(*own.uncovered, outside))


def _limits(plan: Plan, own: Guarantee, streaming: bool) -> Iterator[str]:
    """Yield a sentence for each limit that shards and host add."""
    if plan.shards > 1:
        yield from _shard_limits(plan, own)
    yield from _stream_limits(plan, own) if streaming else _frame_limits(plan)
    yield "This covers rows whose outcome is 'published'; rejected rows and counts are for the operator only."


def _shard_limits(plan: Plan, own: Guarantee) -> Iterator[str]:
    if own.delay is not None:
        yield "Arrivals are counted within a row's own shard."
    if _compares_with_rows(plan):
        yield "A group is compared with the rows of its own shard, a part of all rows by person or position."
    read = _values_read(plan)
    if read:
        yield (
            f"Assume that the shard of a row is known, and with it the range of {', '.join(read)}, even for a row at "
            f"the root; the cut points must be public. A row in which these columns cannot be read is in the shard of "
            f"its person, or in the first shard."
        )
    else:
        by = "person" if _persons_stay_together(plan) else "position"
        yield f"Assume that the shard of a row is known: it follows from its {by}."


def _stream_limits(plan: Plan, own: Guarantee) -> Iterator[str]:
    yield (
        f"A row arrives when its micro-batch begins. By the clock it leaves with the first micro-batch that begins at "
        f"least {own.max_wait:g} s later, and no row leaves with the first micro-batch of its shard."
    )
    yield "The output of a micro-batch counts as a whole: a part of it may hold fewer persons of a group."
    if hides_presence(plan.schema, plan.policy):
        yield (
            "The micro-batch of a row and its start time must not depend on other rows: use no limit on the rows of a "
            "micro-batch, and a fixed interval that it can keep."
        )
    elif own.privacy is not None:
        place = "The position and the micro-batch of a row" if plan.position else "The micro-batch of a row"
        yield f"{place} must not depend on values."
    yield (
        "A replayed micro-batch publishes the same rows, provided that its source returns the same rows and the "
        "versions of castleguard, numpy and pyarrow do not change."
    )


def _frame_limits(plan: Plan) -> Iterator[str]:
    holds = ", and a window of seconds holds them all" if _facts(plan).has_window else ""
    yield f"All rows of the frame arrive at the same time{holds}; they leave at its end at the latest."
    if plan.policy.draws_noise:
        if plan.position:
            yield "Positions must not depend on values."
        yield "Each call is a separate release, and the losses of several calls on the same rows add up."
        yield "The keys of a call are for its rows only: other rows, if it is computed again, would get the same noise."
    else:
        yield "Each call is a separate release: nothing is promised about several releases of the same rows together."
