"""Stages of a stream in processing order, with the keys and input checks needed to create them."""

import hashlib
import os
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.engine import Engine
from castleguard.algorithms.group_policy import GroupPolicy
from castleguard.algorithms.policy import Policy
from castleguard.errors import PolicyError, SchemaError, UsageError
from castleguard.intake.intake import Intake
from castleguard.release.cell_gate import CellGate
from castleguard.release.encode import Encoder, Numbers, PointEncoder
from castleguard.release.gate import Gate
from castleguard.release.point_gate import PointGate
from castleguard.schema.arguments import kind_of
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Schema

Key = NDArray[np.uint32]  # (8,)

KEY_BYTES = 32


class Keys(NamedTuple):
    """Secret keys of a stream, one per purpose."""

    choices: Key
    """Random choices of the engine: ties, seeds, shuffles."""
    hashes: NDArray[np.uint64]
    """(2,) Hashes of persons and of undeclared values."""
    coin: Key
    """Sampling of rows."""
    noise: Key
    """Noise of values, or of their sums."""
    counts: Key
    """Noise of counts."""

    def __repr__(self) -> str:
        """Representation without the secrets."""
        return "Keys(...)"


def make_keys(seed: int | None, key: bytes | None = None) -> Keys:
    """Create keys from the operating system's randomness, or derive them from a seed or from a secret key."""
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


AnyGate = Gate | CellGate | PointGate
AnyEncoder = Encoder | PointEncoder

_GATES = (Gate, CellGate, PointGate)


class Stages(NamedTuple):
    """Stages of one stream."""

    decoder: Decoder
    intake: Intake
    engine: Engine
    gate: AnyGate
    encoder: AnyEncoder


def check_gate(gate: object, promised: int | None) -> None:
    """Refuse a gate that is not defined in `release`, or that requires fewer persons than the statement promises.

    An algorithm makes decisions; it must not check them itself.
    """
    if type(gate) not in _GATES:
        names = ", ".join(kind.__name__ for kind in _GATES)
        raise PolicyError(f"an algorithm must use one of the gates {names}, got {type(gate).__name__}")
    required = gate.least  # type: ignore[attr-defined]
    if promised is not None and (required is None or required < promised):
        raise PolicyError(f"the gate requires {required} persons or rows per group, the statement promises {promised}")


def check_schema(value: object) -> None:
    """Refuse a value that is not a Schema."""
    if not isinstance(value, Schema):
        raise SchemaError(f"schema must be a Schema, got {kind_of(value)}: pass the schema before the policy")


def check_policy(value: object) -> None:
    """Refuse a value that is not a policy, such as a policy class."""
    if not isinstance(value, Policy):
        raise PolicyError(
            f"policy must be one such as Citadel, Castle, Castleguard, Sdgs or Doca, got {kind_of(value)}: pass it "
            f"after the schema"
        )


def group_stages(
    policy: GroupPolicy, schema: Schema, keys: Keys, numbers: Numbers | None, *, engine: Engine, gate: Gate
) -> Stages:
    """Create the stages of a policy that groups true rows: the intake passes rows unchanged."""
    strict = policy.strict
    return Stages(
        intake=Intake(),
        engine=engine,
        decoder=Decoder(schema, key=keys.hashes, strict=strict, diverse=policy.l > 1, cells=strict),
        gate=gate,
        encoder=policy.encoder(schema, numbers),
    )
