"""A source, a sink or a relay in words."""

from castleguard.config.job_model import Endpoint


def spell_endpoint(endpoint: Endpoint) -> str:
    """Its type and the options that differ from their defaults; secrets hidden."""
    options = ", ".join(f"{key} {value}" for key, value in endpoint.shown().items())
    return f"{endpoint.type} ({options})" if options else endpoint.type
