"""Stages of CASTLE: the intake passes rows unchanged."""

from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.stages import Keys, Stages
from castleguard.intake.intake import Intake
from castleguard.release.encode import Numbers
from castleguard.release.gate import Gate
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Schema


def castle_stages(
    policy: Castle, schema: Schema, keys: Keys, numbers: Numbers | None, *, engine: type[CastleEngine] = CastleEngine
) -> Stages:
    """Create the stages; `engine` is CASTLE's or one derived from it."""
    return Stages(
        intake=Intake(),
        engine=engine(schema, policy, key=keys.choices),
        decoder=Decoder(schema, key=keys.hashes, strict=policy.strict, diverse=policy.l > 1, cells=policy.strict),
        gate=group_gate(policy, schema),
        encoder=policy.encoder(schema, numbers),
    )


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
