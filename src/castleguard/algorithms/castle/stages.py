"""Stages of CASTLE: the intake passes rows unchanged."""

from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.stages import Keys, Stages, group_stages
from castleguard.release.encode import Numbers
from castleguard.release.gate import Gate
from castleguard.schema.roles import Schema


def castle_stages(
    policy: Castle, schema: Schema, keys: Keys, numbers: Numbers | None, *, engine: type[CastleEngine] = CastleEngine
) -> Stages:
    """Create the stages; `engine` is CASTLE's or one derived from it."""
    chosen = engine(schema, policy, key=keys.choices)
    return group_stages(policy, schema, keys, numbers, engine=chosen, gate=group_gate(policy, schema))


def group_gate(policy: Castle, schema: Schema) -> Gate:
    """Create the gate for groups of rows in boxes."""
    return Gate(
        schema,
        policy.criteria,
        known=policy.max_reusable,
        on_grid=policy.strict,
        remembered=policy.remembered_pairs,
        reuse=policy.reuse != "off",
    )
