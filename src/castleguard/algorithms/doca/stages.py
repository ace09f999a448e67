"""Stages of DOCA: the contribution bound, then windows of noisy columns, or the paper's clusters."""

from castleguard.algorithms.doca.paper_engine import DocaEngine
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.doca.window_engine import WindowEngine, WindowKeys
from castleguard.algorithms.engine import Engine
from castleguard.algorithms.stages import Keys, Stages
from castleguard.intake.intake import Intake
from castleguard.intake.local import LocalNoise
from castleguard.privacy.ledger import Ledger
from castleguard.release.encode import Numbers, sensitive_labels
from castleguard.release.point_gate import PointGate
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Schema


def doca_stages(policy: Doca, schema: Schema, keys: Keys, numbers: Numbers | None) -> Stages:
    """Create the stages."""
    return Stages(
        intake=_intake(policy, schema, keys),
        engine=_engine(policy, schema, keys),
        decoder=Decoder(schema, key=keys.hashes, strict=policy.strict, total=policy.strict, sealed=True),
        gate=PointGate(schema, delay=policy.delay, k=policy.k, rows_per_person=policy.rows_per_person),
        encoder=policy.encoder(schema, numbers),
    )


def _intake(policy: Doca, schema: Schema, keys: Keys) -> Intake:
    """Create the intake; in paper mode it also randomises the labels, which stay with their rows."""
    policy.check(schema)
    ledger = None
    if policy.rows_per_person is not None:
        # Rows of a cluster arrive within `delay` of one another, inclusive; windows are aligned.
        window = float(policy.delay if policy.strict else policy.delay + 1)
        ledger = Ledger(rows_per_person=policy.rows_per_person, window=window, aligned=policy.strict)
    if policy.strict:
        return Intake(ledger=ledger, in_rows=True)
    return Intake(
        ledger=ledger,
        perturbation=LocalNoise(schema, policy.shares(schema), key=keys.noise, numbers=False),
        labels=[sensitive_labels(role) for role in schema.sensitive],
        in_rows=True,
    )


def _engine(policy: Doca, schema: Schema, keys: Keys) -> Engine:
    if not policy.strict:
        return DocaEngine(schema, policy, key=keys.choices)
    return WindowEngine(schema, policy, keys=WindowKeys(keys.noise, keys.counts, keys.choices))
