"""Identity of a job: facts that a checkpoint must share with the job that restores it."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from castleguard.config.job_model import Endpoint, JobFile
from castleguard.connectors.csv_input import PLAIN, csv_input_of
from castleguard.connectors.csv_options import csv_of


def identity_of(job: JobFile) -> dict[str, Any]:
    """The facts that identify a job. Choices among the source's rows are kept apart from the source itself: a drained
    job may change them and still restores its position.
    """
    chosen = [option.name for option in fields(job.source.options) if option.metadata.get("identity") == "choice"]
    reads = {"reads": _hashes(job, job.source, chosen)} if chosen else {}
    known = {"name": job.name, "source": _identity(job, job.source), "sink": _identity(job, job.sink), **reads}
    if job.sites is not None:
        # With another key, persons would no longer match the hashes of pending rows.
        key = _hash(job.sites.key_bytes().hex())
        known["sites"] = {"name": job.site, "names": sorted(job.sites.names), "key": key}
    return known


def _identity(job: JobFile, endpoint: Endpoint) -> dict[str, str]:
    """Identity of a source or sink: its options marked as identity, or else all that are not secret."""
    every = fields(endpoint.options)
    marked = [option.name for option in every if option.metadata.get("identity") is True]
    marked = [name for name in marked if name not in _without_effect(endpoint)]
    names = marked or [option.name for option in every if option.name not in endpoint.hidden]
    return {"type": endpoint.type, **_hashes(job, endpoint, names)}


def _without_effect(endpoint: Endpoint) -> set[str]:
    """Sections that change nothing: jobs from before there were such sections keep their identity."""
    options = endpoint.options
    unused = set()
    if csv_of(options) is None and csv_input_of(options) == PLAIN:
        unused.add("csv")
    if not getattr(options, "fields", None):
        unused.add("fields")
    return unused


def _hashes(job: JobFile, endpoint: Endpoint, names: Sequence[str]) -> dict[str, str]:
    """Options as hashes: values from the environment must not be stored in clear text."""
    return {name: _hash(_spelling(job, getattr(endpoint.options, name))) for name in names}


def _spelling(job: JobFile, value: object) -> str:
    """A value as text. Paths below the job file's folder are relative to it, so the folder may be moved."""
    if not isinstance(value, Path):
        return str(value)
    folder, path = Path(os.path.abspath(job.folder)), Path(os.path.abspath(value))
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()
