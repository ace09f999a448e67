"""What a job shares with other sites."""

from collections.abc import Iterator

from castleguard.config.job_model import JobFile
from castleguard.jobs.explain.naming import spell_endpoint


def sites(job: JobFile) -> Iterator[str]:
    """Who publishes together, what leaves a site, and what happens while the others are away."""
    assert job.sites is not None
    joint = job.policy.joint
    assert joint is not None
    others = [name for name in job.sites.names if name != job.site]
    relay = spell_endpoint(job.sites.relay)
    yield f"This is {job.site}; it publishes together with {', '.join(others)}, by way of {relay}."
    yield (
        "No quasi-identifier and no person leaves a site. A row that is published together with rows of another site "
        "goes there as it will be published, with a keyed hash of its person, sealed with the key that the sites share."
    )
    yield (
        f"Rows take part from {1 - joint.reserve:.0%} of the delay on; the source is read {joint.step:,} "
        f"rows at a time, so that the others are heard. Such releases bring commits of their own."
    )
    yield (
        "While the others or the relay are away, this site publishes alone, with more loss. Rows that were locked for "
        "a release when the relay went away, and are due before it comes back, are dropped and counted as undecided."
    )
    yield "Persons are counted over all sites only if a person has the same identifier at each of them."
