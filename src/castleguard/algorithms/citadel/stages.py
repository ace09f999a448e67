"""The stages of Citadel: rows pass the intake as they are."""

from castleguard.algorithms.citadel.engine import CitadelEngine
from castleguard.algorithms.citadel.policy import Citadel
from castleguard.algorithms.stages import Keys, Stages
from castleguard.intake.intake import Intake
from castleguard.release.encode import Numbers
from castleguard.release.gate import Gate
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Schema


def citadel_stages(policy: Citadel, schema: Schema, keys: Keys, numbers: Numbers | None) -> Stages:
    """New stages."""
    return Stages(
        intake=Intake(),
        engine=CitadelEngine(schema, policy, key=keys.choices),
        decoder=Decoder(schema, key=keys.hashes, strict=True, diverse=policy.l > 1, cells=True),
        gate=release_gate(policy, schema),
        encoder=policy.encoder(schema, numbers),
    )


def release_gate(policy: Citadel, schema: Schema) -> Gate:
    """The gate for releases: every new group must stand by itself, and no person may have too many of its rows."""
    return Gate(
        schema,
        policy.criteria,
        known=policy.max_reusable if policy.reuse == "narrow" else 0,
        on_grid=True,
        reuse=policy.reuse == "narrow",
        bounded_share=True,
    )
