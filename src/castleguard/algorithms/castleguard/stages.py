"""Stages of CASTLEGUARD: a ledger, a coin and noise, then the stages of CASTLE or Citadel."""

import math

from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.castle.stages import group_gate
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.citadel.engine import CitadelEngine
from castleguard.algorithms.citadel.stages import release_gate
from castleguard.algorithms.engine import Engine
from castleguard.algorithms.stages import Keys, Stages
from castleguard.errors import PolicyError
from castleguard.intake.intake import Intake, Perturbation, row_coin
from castleguard.intake.local import LocalNoise
from castleguard.intake.paper import PaperNoise
from castleguard.privacy.ledger import Ledger
from castleguard.release.encode import Numbers, sensitive_labels
from castleguard.schema.decode import Decoder
from castleguard.schema.levels import check_declared
from castleguard.schema.roles import Schema


def castleguard_stages(policy: Castleguard, schema: Schema, keys: Keys, numbers: Numbers | None) -> Stages:
    """Create the stages."""
    citadel = policy.citadel
    engine: Engine
    if citadel is None:
        engine, gate = CastleEngine(schema, policy, key=keys.choices), group_gate(policy, schema)
    else:
        engine, gate = CitadelEngine(schema, citadel, key=keys.choices), release_gate(citadel, schema)
    return Stages(
        intake=_intake(policy, schema, keys),
        engine=engine,
        decoder=Decoder(
            schema,
            key=keys.hashes,
            strict=policy.strict,
            diverse=not policy.strict and policy.l > 1,
            total=policy.strict,
            cells=policy.strict and policy.noise == "edge",  # local noise needs values, and outputs cells
            sealed=policy.strict,
        ),
        gate=gate,
        encoder=policy.encoder(schema, numbers),
    )


def _intake(policy: Castleguard, schema: Schema, keys: Keys) -> Intake:
    labels = []
    if policy.strict:
        check_declared(schema)
        labels = [sensitive_labels(role) for role in schema.sensitive]
    return Intake(
        ledger=_ledger(policy, schema),
        coin=row_coin(policy.sample_rate, keys.coin),
        perturbation=_perturbation(policy, schema, keys),
        labels=labels,
        in_rows=policy.window_unit == "rows",
        leave_no_trace=policy.chosen_clock != "arrivals",
    )


def _ledger(policy: Castleguard, schema: Schema) -> Ledger | None:
    if policy.rows_per_person is None:
        return None
    if schema.person is None:
        raise PolicyError("rows_per_person needs a person column in the schema, to count the rows of a person")
    window = math.inf if policy.window is None else float(policy.window)
    return Ledger(rows_per_person=policy.rows_per_person, window=window)


def _perturbation(policy: Castleguard, schema: Schema, keys: Keys) -> Perturbation | None:
    if not policy.strict:
        assert policy.phi is not None
        return PaperNoise(schema, phi=policy.phi, range_floor=policy.range_floor, key=keys.noise)
    if policy.noise == "edge":
        return None
    return LocalNoise(schema, policy.shares(schema), key=keys.noise, cells=True)
