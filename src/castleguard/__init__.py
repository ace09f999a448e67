"""castleguard: publish a stream of personal records within a bounded delay, under a privacy guarantee.

>>> import castleguard as cg
>>> schema = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)])
>>> rows = [{"pid": number, "age": 20 + number} for number in range(4)]
>>> cg.anonymise(rows, schema, cg.Castle(k=2, delay=10), seed=1).to_pylist()[0]
{'age_min': 20, 'age_max': 25}
"""

from importlib import import_module
from typing import TYPE_CHECKING

from castleguard.version import __version__

if TYPE_CHECKING:
    from castleguard.algorithms.castle.policy import Castle
    from castleguard.algorithms.castleguard.policy import Castleguard
    from castleguard.algorithms.citadel.policy import Citadel
    from castleguard.algorithms.doca.policy import Doca
    from castleguard.algorithms.sdgs.policy import Sdgs
    from castleguard.books import Report
    from castleguard.conversion import anonymise
    from castleguard.edge import Randomiser
    from castleguard.errors import CastleguardError
    from castleguard.jobs.evaluation import audit, measure
    from castleguard.jobs.in_process import Job, check, explain, load_job
    from castleguard.jobs.load import load_schema
    from castleguard.jobs.propose.proposal import propose
    from castleguard.jobs.sweeping import sweep
    from castleguard.privacy.closeness import Closeness
    from castleguard.privacy.guarantee import Guarantee
    from castleguard.schema.hierarchy import Hierarchy
    from castleguard.schema.person import Person
    from castleguard.schema.roles import Categorical, Numeric, Schema
    from castleguard.schema.sensitive import Public, Sensitive
    from castleguard.stream import Anonymiser

__all__ = [
    "Anonymiser",
    "Castle",
    "Castleguard",
    "CastleguardError",
    "Categorical",
    "Citadel",
    "Closeness",
    "Doca",
    "Guarantee",
    "Hierarchy",
    "Job",
    "Numeric",
    "Person",
    "Public",
    "Randomiser",
    "Report",
    "Schema",
    "Sdgs",
    "Sensitive",
    "__version__",
    "anonymise",
    "audit",
    "check",
    "explain",
    "load_job",
    "load_schema",
    "measure",
    "propose",
    "sweep",
]

_HOMES = {
    "Anonymiser": "stream",
    "Castle": "algorithms.castle.policy",
    "Castleguard": "algorithms.castleguard.policy",
    "CastleguardError": "errors",
    "Categorical": "schema.roles",
    "Citadel": "algorithms.citadel.policy",
    "Closeness": "privacy.closeness",
    "Doca": "algorithms.doca.policy",
    "Guarantee": "privacy.guarantee",
    "Hierarchy": "schema.hierarchy",
    "Job": "jobs.in_process",
    "Numeric": "schema.roles",
    "Person": "schema.person",
    "Public": "schema.sensitive",
    "Randomiser": "edge",
    "Report": "books",
    "Schema": "schema.roles",
    "Sdgs": "algorithms.sdgs.policy",
    "Sensitive": "schema.sensitive",
    "anonymise": "conversion",
    "audit": "jobs.evaluation",
    "check": "jobs.in_process",
    "explain": "jobs.in_process",
    "load_job": "jobs.in_process",
    "load_schema": "jobs.load",
    "measure": "jobs.evaluation",
    "propose": "jobs.propose.proposal",
    "sweep": "jobs.sweeping",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use: `castleguard --help` needs neither Arrow nor the compiler."""
    if name not in _HOMES:
        raise AttributeError(f"module 'castleguard' has no attribute {name!r}")
    value = getattr(import_module(f"castleguard.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
