"""From a policy to the stages of its stream: which decoder, intake, engine and gate it needs, and their keys."""

import hashlib
import math
import os
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.dcastle.engine import MemberEngine
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.algorithms.doca.paper_engine import DocaEngine
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.doca.windows import WindowEngine, WindowKeys
from castleguard.algorithms.engine import Engine
from castleguard.algorithms.registry import Policy
from castleguard.algorithms.sdgs.engine import SdgsEngine
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.errors import PolicyError, UsageError
from castleguard.intake.intake import Intake, Perturbation
from castleguard.intake.local import LocalNoise
from castleguard.intake.paper import PaperNoise
from castleguard.intake.window_coin import WindowCoin
from castleguard.privacy.budget import exact
from castleguard.privacy.ledger import Ledger
from castleguard.privacy.mechanisms import Bernoulli
from castleguard.privacy.noise import Noise
from castleguard.release.cells import CellGate
from castleguard.release.encode import Encoder, Numbers
from castleguard.release.gate import Gate
from castleguard.release.point_gate import PointGate
from castleguard.release.points import PointEncoder
from castleguard.schema.arguments import kind_of
from castleguard.schema.arrow import sensitive_labels
from castleguard.schema.decode import Decoder
from castleguard.schema.levels import check_declared
from castleguard.schema.roles import Schema

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
    """Of values, or of their sums."""
    counts: Key
    """The noise of counts."""


KEY_BYTES = 32


def make_keys(seed: int | None, key: bytes | None = None) -> Keys:
    """Fresh keys from the operating system, or those that follow from a seed, or from a key that is itself secret."""
    size = 32 + 16 + 32 + 32 + 32
    if seed is not None and key is not None:
        raise UsageError("a stream has a seed or a key, not both")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, Integral)):
        raise UsageError(f"seed must be a whole number, got {kind_of(seed)}")
    if key is not None:
        if not isinstance(key, bytes):
            raise UsageError(f"a key has {KEY_BYTES} bytes, got {kind_of(key)}")
        if len(key) != KEY_BYTES:
            raise UsageError(f"a key has {KEY_BYTES} bytes, got {len(key)}")
        raw = hashlib.shake_256(b"castleguard key " + key).digest(size)
    elif seed is not None:
        raw = hashlib.shake_256(f"castleguard seed {seed}".encode()).digest(size)
    else:
        raw = os.urandom(size)
    words = [np.frombuffer(raw[at : at + 32], dtype="<u4").astype(np.uint32) for at in (0, 48, 80, 112)]
    hashes = np.frombuffer(raw[32:48], dtype="<u8").astype(np.uint64)
    return Keys(choices=words[0], hashes=hashes, coin=words[1], noise=words[2], counts=words[3])


def make_decoder(schema: Schema, policy: Policy, key: NDArray[np.uint64]) -> Decoder:
    """Where noise is claimed to hide what a row holds, no row is refused for its values."""
    total = isinstance(policy, Castleguard | Doca) and policy.strict
    sealed = total or isinstance(policy, Sdgs | Doca)
    diverse = not sealed and isinstance(policy, Castle) and policy.l > 1
    return Decoder(
        schema,
        key=key,
        strict=policy.strict,
        diverse=diverse,
        total=total,
        cells=_reads_cells(policy),
        sealed=sealed,
    )


def _reads_cells(policy: Policy) -> bool:
    """Whether rows enter as cells. Noise and DOCA's sums read values; noise hands on cells (`LocalNoise`)."""
    if isinstance(policy, Doca) or not policy.strict:
        return False
    return not isinstance(policy, Castleguard) or policy.noise == "edge"


def make_intake(schema: Schema, policy: Policy, keys: Keys) -> Intake:
    """What happens to rows before the engine sees them."""
    if isinstance(policy, Sdgs):
        return _sdgs_intake(schema, policy, keys)
    if isinstance(policy, Doca):
        return _doca_intake(schema, policy, keys)
    if not isinstance(policy, Castleguard):
        return Intake()
    labels = []
    if policy.strict:
        check_declared(schema)
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
    labels = [sensitive_labels(role) for role in schema.sensitive]
    in_rows = policy.window_unit == "rows"
    if policy.unit_for(schema) == "row":
        return Intake(coin=_coin(policy.sample_rate, keys), labels=labels, in_rows=in_rows)
    # k counts admitted rows as persons: a missing one must not be among them.
    ledger = Ledger(rows_per_person=1, window=float(policy.window), aligned=True, admits_nobody=False)
    if in_rows:
        return Intake(ledger=ledger, coin=_coin(policy.sample_rate, keys), labels=labels, in_rows=True)
    rate = Bernoulli(rate=exact("sample_rate", policy.sample_rate))
    coin = WindowCoin(rate, key=keys.coin, window_at=lambda now: policy.window_at(now, 0))
    return Intake(ledger=ledger, coin=coin, labels=labels)


def _doca_intake(schema: Schema, policy: Doca, keys: Keys) -> Intake:
    """The contribution bound; in paper mode also the noise of labels, which then go with their rows."""
    policy.check(schema)
    ledger = None
    if policy.rows_per_person is not None:
        # Rows of a cluster arrive within `delay` of one another, both ends included; windows are aligned.
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


def make_engine(schema: Schema, policy: Policy, keys: Keys) -> Engine:
    """What holds rows and decides which leave."""
    if isinstance(policy, Sdgs):
        return SdgsEngine(schema, policy)
    if isinstance(policy, Doca):
        if not policy.strict:
            return DocaEngine(schema, policy, key=keys.choices)
        return WindowEngine(schema, policy, keys=WindowKeys(keys.noise, keys.counts, keys.choices))
    kind = MemberEngine if isinstance(policy, Dcastle) else CastleEngine
    return kind(schema, policy, key=keys.choices)


def begin_at(engine: Engine, arrivals: int) -> bool:
    """Let windows that are counted in rows go on with this arrival; whether the engine has such windows."""
    if not isinstance(engine, SdgsEngine | WindowEngine):
        return False
    engine.begin_at(arrivals)
    return True


def make_gate(schema: Schema, policy: Policy) -> Gate | CellGate | PointGate:
    """What re-checks every group."""
    if isinstance(policy, Sdgs):
        return CellGate(schema, policy.criteria)
    if isinstance(policy, Doca):
        return PointGate(schema, delay=policy.delay, k=policy.k, rows_per_person=policy.rows_per_person)
    return Gate(
        schema,
        policy.criteria,
        known=policy.max_reusable,
        on_grid=policy.strict,
        remembered=policy.remembered_pairs,
        reuse=policy.reuse != "off",
    )


def make_encoder(schema: Schema, policy: Policy, numbers: Numbers | None) -> Encoder | PointEncoder:
    """What turns coded output into a table. `numbers` says how ranges are written, where ranges are published."""
    if not isinstance(policy, Doca):
        return Encoder(schema, numbers=numbers or "bounds", exact=not policy.strict)
    if numbers is not None:
        raise PolicyError(f"numbers={numbers!r} says how a range is written, and DOCA publishes numbers, not ranges")
    return PointEncoder(schema, sensitive=policy.strict)


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
    return LocalNoise(schema, policy.shares(schema), key=keys.noise, cells=True)
