"""The policies by name: what can be asked of a stream."""

from typing import Literal

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.errors import PolicyError
from castleguard.schema.arguments import kind_of

Policy = Castle | Sdgs | Doca
"""A Castleguard is a Castle, and so is a Dcastle."""

Algorithm = Literal["castle", "castleguard", "sdgs", "doca", "dcastle"]
POLICIES: dict[str, type[Policy]] = {
    "castle": Castle,
    "castleguard": Castleguard,
    "sdgs": Sdgs,
    "doca": Doca,
    "dcastle": Dcastle,
}


def check_policy(value: object) -> None:
    """Refuse what is not a policy: something else, or the class of one."""
    if not isinstance(value, Policy):
        raise PolicyError(
            f"policy must be a Castle, Castleguard, Sdgs or Doca, got {kind_of(value)}: it comes after the schema"
        )


def is_noisy(policy: Policy) -> bool:
    """Whether the same rows, published anew, would come out with fresh randomness and spend their budget again."""
    return not isinstance(policy, Castle) or isinstance(policy, Castleguard)
