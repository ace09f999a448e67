"""From a policy to the stages of its stream: which decoder, intake, engine and gate it needs, and their keys."""

import hashlib
import math
import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.engine.base import Engine
from castleguard.engine.castle import CastleEngine
from castleguard.engine.castleguard import Castleguard
from castleguard.engine.policy import Castle
from castleguard.engine.sdgs import SdgsEngine
from castleguard.engine.sdgs_policy import Sdgs
from castleguard.errors import PolicyError
from castleguard.privacy.budget import exact
from castleguard.privacy.ledger import Ledger
from castleguard.privacy.mechanisms import Bernoulli
from castleguard.privacy.noise import Noise
from castleguard.randomise.intake import Intake, Perturbation
from castleguard.randomise.local import LocalNoise, check_domains
from castleguard.randomise.paper import PaperNoise
from castleguard.release.cells import CellGate
from castleguard.release.gate import Gate
from castleguard.schema.arrow import sensitive_labels
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Schema

Policy = Castle | Sdgs
"""What can be asked of a stream; a Castleguard is a Castle."""
Key = NDArray[np.uint32]  # (8,)


class Keys(NamedTuple):
    """The secrets of a stream, each for one use."""

    choices: Key
    """The engine's: ties, seeds, shuffles."""
    hashes: NDArray[np.uint64]
    """(2,) of persons and of values that are not declared."""
    coin: Key
    """Which rows are sampled."""
    noise: Key


def make_keys(seed: int | None) -> Keys:
    """Fresh keys from the operating system, or those that follow from a seed."""
    size = 32 + 16 + 32 + 32
    raw = os.urandom(size) if seed is None else hashlib.shake_256(f"castleguard seed {seed}".encode()).digest(size)
    words = [np.frombuffer(raw[at : at + 32], dtype="<u4").astype(np.uint32) for at in (0, 48, 80)]
    hashes = np.frombuffer(raw[32:48], dtype="<u8").astype(np.uint64)
    return Keys(choices=words[0], hashes=hashes, coin=words[1], noise=words[2])


def make_decoder(schema: Schema, policy: Policy, key: NDArray[np.uint64]) -> Decoder:
    """The noise of a row must not depend on what it holds, so in local mode no row is refused for its values."""
    local = isinstance(policy, Castleguard) and policy.strict
    sealed = local or isinstance(policy, Sdgs)
    return Decoder(
        schema, key=key, strict=policy.strict, needs_bins=policy.l > 1 and not sealed, total=local, sealed=sealed
    )


def make_intake(schema: Schema, policy: Policy, keys: Keys) -> Intake:
    """What happens to rows before the engine sees them."""
    if isinstance(policy, Sdgs):
        return _sdgs_intake(schema, policy, keys)
    if not isinstance(policy, Castleguard):
        return Intake()
    labels = []
    if policy.strict:
        check_domains(schema)
        labels = [sensitive_labels(role) for role in schema.sensitive]
    return Intake(
        ledger=_ledger(schema, policy),
        coin=_coin(policy.sample_rate, keys),
        perturbation=_perturbation(schema, policy, keys),
        labels=labels,
        in_rows=policy.window_unit == "rows",
        leave_no_trace=policy.chosen_clock != "arrivals",
    )


def _sdgs_intake(schema: Schema, policy: Sdgs, keys: Keys) -> Intake:
    """At most one row of a person in a window, then the coin: the other way round a person would have many chances."""
    policy.check(schema)
    ledger = None
    if policy.unit_for(schema) == "person":
        ledger = Ledger(rows_per_person=1, window=float(policy.window), aligned=True)
    return Intake(
        ledger=ledger,
        coin=_coin(policy.sample_rate, keys),
        labels=[sensitive_labels(role) for role in schema.sensitive],
        in_rows=policy.window_unit == "rows",
    )


def make_engine(schema: Schema, policy: Policy, keys: Keys) -> Engine:
    """What holds rows and decides which leave."""
    if isinstance(policy, Sdgs):
        return SdgsEngine(schema, policy)
    return CastleEngine(schema, policy, key=keys.choices)


def make_gate(schema: Schema, policy: Policy) -> Gate | CellGate:
    """What re-checks every group."""
    if isinstance(policy, Sdgs):
        return CellGate(schema, policy.criteria)
    return Gate(
        schema,
        policy.criteria,
        known=policy.max_reusable,
        on_grid=policy.strict,
        remembered=policy.remembered_pairs,
    )


def _ledger(schema: Schema, policy: Castleguard) -> Ledger | None:
    if policy.rows_per_person is None:
        return None
    if schema.person is None:
        raise PolicyError("rows_per_person needs a person column in the schema: without one nobody has two rows")
    window = math.inf if policy.window is None else float(policy.window)
    return Ledger(rows_per_person=policy.rows_per_person, window=window)


def _coin(sample_rate: float, keys: Keys) -> Noise | None:
    if sample_rate == 1:
        return None
    return Noise((), key=keys.coin, rate=Bernoulli(rate=exact("sample_rate", sample_rate)))


def _perturbation(schema: Schema, policy: Castleguard, keys: Keys) -> Perturbation | None:
    if not policy.strict:
        assert policy.phi is not None
        return PaperNoise(schema, phi=policy.phi, range_floor=policy.range_floor, key=keys.noise)
    if policy.noise == "edge":
        return None
    return LocalNoise(schema, policy.shares(schema), key=keys.noise)
