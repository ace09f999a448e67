"""What a stream that is cut into shards promises, and what is refused because it could not be.

Every shard is a stream of its own, with an engine, a gate and keys of its own; shards never talk. So each keeps its
policy's promise by itself. What is left to ask is which promises hold of all shards together, and what may be learnt
from the shard that a row is in. `check` is called before anything starts. The proofs are in docs/proofs/shards.md.
"""

from collections.abc import Iterator
from dataclasses import replace

from castleguard.algorithms.base import Policy
from castleguard.algorithms.facts import ShardPromise
from castleguard.errors import PolicyError, SchemaError
from castleguard.privacy.guarantee import DifferentialPrivacy, Guarantee
from castleguard.schema.roles import Numeric, Schema
from castleguard.shards.plan import Plan
from castleguard.shards.routing import LocalityRoute
from castleguard.stream import Anonymiser

OWN_COLUMNS = ("outcome", "shard", "place", "detail")
"""What the output has beside the published columns."""


def check(plan: Plan, *, streaming: bool) -> None:
    """Raise PolicyError or SchemaError if this plan asks for what cannot be promised, or what a host cannot do."""
    _check_host(plan, streaming)
    _check_position(plan)
    _check_output(plan)
    if plan.shards > 1:
        _check_route(plan)
    # What each shard will be: whatever else is wrong with schema or policy is said now, and not by a worker.
    Anonymiser(plan.schema, plan.policy, seed=plan.seed, numbers=plan.numbers)


def guarantee(plan: Plan, *, streaming: bool) -> Guarantee:
    """The statement for all shards together. Raises as `check` does."""
    check(plan, streaming=streaming)
    own = plan.policy.guarantee(plan.schema, seeded=plan.seed is not None)
    together = f" {_of_all(plan)}" if plan.shards > 1 else ""
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
        raise PolicyError("order='input' cannot be kept: what several shards publish has no order; use 'shuffled'")
    if streaming and plan.policy.max_wait is None:
        raise PolicyError(
            "a stream needs max_wait, the seconds after which a row leaves: a shard to which no more rows come would "
            "keep for ever the ones that it has"
        )


def _check_position(plan: Plan) -> None:
    declared = {name.casefold() for name in plan.schema.columns}
    for name in plan.position:
        if name.casefold() in declared:
            raise SchemaError(
                f"column {name!r} is declared in the schema and cannot be a position: the position of a refused row is "
                f"told to the operator, and its values are not; give a column that is not declared"
            )


def _check_output(plan: Plan) -> None:
    """Names are compared as the host does it: without regard to capitals."""
    taken = dict.fromkeys(OWN_COLUMNS, "the output's own")
    for name in _published(plan):
        other = taken.setdefault(name.casefold(), f"that of {name!r}")
        if other != f"that of {name!r}":
            raise SchemaError(f"column {name!r} is published under a name that is {other}: rename it")


def _published(plan: Plan) -> list[str]:
    boxes = [field.name for field in plan.policy.encoder(plan.schema, plan.numbers).fields]
    return [*boxes, *(role.name for role in plan.schema.sensitive), *plan.schema.public]


def _check_route(plan: Plan) -> None:
    schema, policy = plan.schema, plan.policy
    read = _values_read(plan)
    if read and policy.draws_noise:
        raise PolicyError(
            f"rows are sent to shards by {', '.join(read)}, without noise, and their shard shows: "
            f"{_instead(schema, policy)}"
        )
    _check_values_read(plan, read)
    if read and _runs_along(plan):
        raise PolicyError(
            f"closeness to the rows of a shard says little where shards are made by {', '.join(read)}: a shard may "
            f"be far from all rows; send rows by person, or compare with reference='public'"
        )
    if _persons_stay_together(plan):
        return
    if _facts(plan).counts_persons:
        raise PolicyError(
            "the bound on a person's rows is kept within a shard: all rows of a person must be in one, so send them "
            "by person"
        )
    if hides_presence(schema, policy):
        raise PolicyError(
            "that a row is there cannot be hidden if rows are sent to shards by position, since one row more moves "
            "the rows after it: declare a person column and send rows by person, or use shards=1"
        )


def _check_values_read(plan: Plan, read: list[str]) -> None:
    """Values may decide on a shard if all that it tells of a row is in which public range it lies."""
    quasi = {role.name: role for role in plan.schema.quasi_identifiers}
    for name in read:
        role = quasi.get(name)
        if role is None:
            raise PolicyError(
                f"rows are sent to shards by {name!r}, which is no quasi-identifier: the shard of a row shows, and "
                f"would tell which sensitive or public values it cannot have; use route='locality', or send rows by "
                f"person or by position"
            )
        if isinstance(role, Numeric) and role.domain is None:
            raise SchemaError(
                f"rows are sent to shards by {name!r}, which has no lower and upper: borders that are taken from the "
                f"rows would show them; declare both, or send rows by person"
            )
    if read and not isinstance(plan.route, LocalityRoute):
        raise PolicyError(
            f"rows are sent to shards by the exact values of {', '.join(read)}, and their shard shows: few values of "
            f"a published range would fit it; use route='locality', or declare a person column or a position"
        )


def _values_read(plan: Plan) -> list[str]:
    """The columns that decide on a row's shard and are neither the person nor the position."""
    return [name for name in plan.route.columns if name != plan.schema.person and name not in plan.position]


def _instead(schema: Schema, policy: Policy) -> str:
    """What to do where rows with noise cannot be sent by their values."""
    if schema.person is not None:
        return "send them by person (route='hash')"
    if hides_presence(schema, policy):
        return "declare a person column, or use shards=1"
    return "declare a person column or a position that does not depend on values, or use shards=1"


def _facts(plan: Plan) -> ShardPromise:
    """What the policy says of shards."""
    return plan.policy.sharded(plan.schema, streaming=False)


def _runs_along(plan: Plan) -> bool:
    """Whether groups are compared with rows of the stream."""
    closeness = _facts(plan).closeness
    return closeness is not None and closeness.reference != "public"


def _persons_stay_together(plan: Plan) -> bool:
    """Whether all rows of a person are certain to be in one shard."""
    return plan.shards == 1 or set(plan.route.columns) <= {plan.schema.person}


def hides_presence(schema: Schema, policy: Policy) -> bool:
    """Whether neighbours have one row more, or one person, and not other values."""
    return policy.sharded(schema, streaming=False).hides_presence


def _of_all(plan: Plan) -> str:
    """What the single promises make together."""
    each = f"Each of the {plan.shards} shards keeps this by itself"
    persons_apart = plan.schema.person is None or _persons_stay_together(plan)
    if _runs_along(plan) or (_facts(plan).judges_shape and not persons_apart):
        return f"{each}; of all together k and l hold, and nothing is promised about the distribution of their values."
    return f"{each}, and so do all of them together."


def _claim(plan: Plan, own: DifferentialPrivacy, streaming: bool) -> DifferentialPrivacy:
    """The same loss. But a shard begins with its first row, and publishes from the next micro-batch on."""
    if not (streaming and hides_presence(plan.schema, plan.policy)):
        return own
    outside = "in which micro-batch a row is published, and what names, numbers and times of files tell"
    return replace(own, uncovered=(*own.uncovered, outside))


def _limits(plan: Plan, own: Guarantee, streaming: bool) -> Iterator[str]:
    """What the shards and the host change, a sentence each."""
    if plan.shards > 1:
        yield from _shard_limits(plan, own)
    yield from _stream_limits(plan, own) if streaming else _frame_limits(plan)
    yield "Only rows whose outcome is 'published' are spoken of: rejected rows and counts are for the operator alone."


def _shard_limits(plan: Plan, own: Guarantee) -> Iterator[str]:
    if own.delay is not None:
        yield "Arrivals are those of a row's own shard."
    if _runs_along(plan):
        yield "The rows that a group is compared with are those of its own shard, a part of all by person or position."
    read = _values_read(plan)
    if read:
        yield (
            f"The shard of a row must be taken as known, and with it what its shard says of {', '.join(read)}, also "
            f"for a row at the root; the borders between shards must be public. A row of which these cannot be read is "
            f"where its person is, or in the first shard."
        )
    else:
        by = "person" if _persons_stay_together(plan) else "position"
        yield f"The shard of a row must be taken as known: it follows from its {by}."


def _stream_limits(plan: Plan, own: Guarantee) -> Iterator[str]:
    yield (
        f"A row arrives when its micro-batch begins. By the clock it leaves with the first micro-batch that begins "
        f"{own.max_wait:g} s after that or later, and none leaves with the first micro-batch of its shard."
    )
    yield "What a micro-batch publishes counts as a whole: a part of it may hold fewer persons of a group."
    if hides_presence(plan.schema, plan.policy):
        yield (
            "Which micro-batch a row comes in, and when that begins, must not depend on other rows: no limit on the "
            "rows of a micro-batch, and an interval that it keeps to."
        )
    elif own.privacy is not None:
        place = (
            "A row's position, and which micro-batch it comes in,"
            if plan.position
            else "Which micro-batch a row comes in"
        )
        yield f"{place} must not depend on values."
    yield (
        "A micro-batch that is run again publishes the same again, as long as its source gives the same rows and the "
        "versions of castleguard, numpy and pyarrow stay."
    )


def _frame_limits(plan: Plan) -> Iterator[str]:
    holds = ", and a window of seconds holds them all" if _facts(plan).has_window else ""
    yield f"All rows of the frame arrive at one moment{holds}; they leave at its end at the latest."
    if plan.policy.draws_noise:
        if plan.position:
            yield "Positions must not depend on values."
        yield "Each call is a release of its own, and what calls spend on the same rows adds up."
        yield "Its keys are for these rows alone: other rows, when it is computed again, would get the same noise."
    else:
        yield "Each call is a release of its own: not promised is what several of the same rows show together."
