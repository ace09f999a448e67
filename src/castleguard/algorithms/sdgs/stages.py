"""Stages of SDGS: at most one row per person and window, then the coin.

In the reverse order a person with many rows would have many chances.
"""

from castleguard.algorithms.sdgs.engine import SdgsEngine
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.algorithms.stages import Keys, Stages
from castleguard.intake.intake import Intake, row_coin
from castleguard.intake.window_coin import WindowCoin
from castleguard.privacy.epsilon_shares import exact
from castleguard.privacy.ledger import Ledger
from castleguard.privacy.mechanisms import Bernoulli
from castleguard.release.cell_gate import CellGate
from castleguard.release.encode import Numbers, sensitive_labels
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Schema


def sdgs_stages(policy: Sdgs, schema: Schema, keys: Keys, numbers: Numbers | None) -> Stages:
    """Create the stages."""
    return Stages(
        intake=_intake(policy, schema, keys),
        engine=SdgsEngine(schema, policy),
        decoder=Decoder(schema, key=keys.hashes, cells=True, sealed=True),
        gate=CellGate(schema, policy.criteria),
        encoder=policy.encoder(schema, numbers),
    )


def _intake(policy: Sdgs, schema: Schema, keys: Keys) -> Intake:
    policy.check(schema)
    labels = [sensitive_labels(role) for role in schema.sensitive]
    in_rows = policy.window_unit == "rows"
    if policy.unit_for(schema) == "row":
        return Intake(coin=row_coin(policy.sample_rate, keys.coin), labels=labels, in_rows=in_rows)
    # k counts admitted rows as persons, so rows without a person must not be admitted.
    ledger = Ledger(rows_per_person=1, window=float(policy.window), aligned=True, admits_unnamed=False)
    if in_rows:
        return Intake(ledger=ledger, coin=row_coin(policy.sample_rate, keys.coin), labels=labels, in_rows=True)
    rate = Bernoulli(rate=exact("sample_rate", policy.sample_rate))
    coin = WindowCoin(rate, key=keys.coin, window_at=lambda now: policy.window_at(now, 0))
    return Intake(ledger=ledger, coin=coin, labels=labels)
