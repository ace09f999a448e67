"""The stages of a stream, in the order in which a row passes them."""

from typing import NamedTuple

from castleguard.algorithms.engine import Engine
from castleguard.errors import PolicyError
from castleguard.intake.intake import Intake
from castleguard.release.cells import CellGate
from castleguard.release.encode import Encoder
from castleguard.release.gate import Gate
from castleguard.release.point_gate import PointGate
from castleguard.release.points import PointEncoder
from castleguard.schema.decode import Decoder

AnyGate = Gate | CellGate | PointGate
AnyEncoder = Encoder | PointEncoder

_GATES = (Gate, CellGate, PointGate)


class Stages(NamedTuple):
    """One stream's stages."""

    decoder: Decoder
    intake: Intake
    engine: Engine
    gate: AnyGate
    encoder: AnyEncoder


def check_gate(gate: object, promised: int | None) -> None:
    """Refuse a gate that is not one of `release`, or that asks for fewer persons than the statement promises.

    An algorithm decides; it does not judge its own decisions.
    """
    if type(gate) not in _GATES:
        names = ", ".join(kind.__name__ for kind in _GATES)
        raise PolicyError(f"an algorithm uses one of the gates {names}, got {type(gate).__name__}")
    asked = gate.least  # type: ignore[attr-defined]
    if promised is not None and (asked is None or asked < promised):
        raise PolicyError(f"the gate asks for {asked} persons or rows of a group, the statement promises {promised}")
