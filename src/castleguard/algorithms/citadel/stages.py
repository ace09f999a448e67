"""Stages of Citadel: the intake passes rows unchanged."""

from castleguard.algorithms.citadel.engine import CitadelEngine
from castleguard.algorithms.citadel.policy import Citadel
from castleguard.algorithms.stages import Keys, Stages, group_stages
from castleguard.release.encode import Numbers
from castleguard.release.gate import Gate
from castleguard.schema.roles import Schema


def citadel_stages(policy: Citadel, schema: Schema, keys: Keys, numbers: Numbers | None) -> Stages:
    """Create the stages."""
    engine = CitadelEngine(schema, policy, key=keys.choices)
    return group_stages(policy, schema, keys, numbers, engine=engine, gate=release_gate(policy, schema))


def release_gate(policy: Citadel, schema: Schema) -> Gate:
    """Create the gate for releases: each new group must pass by itself, without too many rows of one person."""
    return Gate(
        schema,
        policy.criteria,
        known=policy.max_reusable if policy.reuse == "narrow" else 0,
        on_grid=True,
        reuse=policy.reuse == "narrow",
        bounded_share=True,
    )
