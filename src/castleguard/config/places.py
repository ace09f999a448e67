"""Checks that the files that a job reads, publishes and stores do not collide."""

import glob
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from castleguard.config.job_model import Endpoint, JobFile
from castleguard.durable import is_unfinished
from castleguard.errors import ConfigError, Mistake


def check_places(job: JobFile) -> None:
    """Refuse a job that would overwrite its own files or read its own output. Raises ConfigError with all problems."""
    mistakes = [Mistake(sentence, where=job.where(section), key=key) for section, key, sentence in _problems(job)]
    if mistakes:
        raise ConfigError(*(Mistake(*map(job.mask, each)) for each in mistakes))


def _problems(job: JobFile) -> Iterator[tuple[str, str, str]]:
    """Section, key and sentence of each collision."""
    source, sink = _path_of(job.source), _path_of(job.sink)
    checkpoint = None if job.checkpoint is None else job.checkpoint.path
    letters = None if job.dead_letter is None else job.dead_letter.path
    taken = [(job.path, "the job file"), (source, "the source"), (sink, "the sink")]
    if sink is not None and source is not None and _reads(source, sink / f"part-{1:012}.{job.sink.type}"):
        yield "sink", "sink.path", "is the source folder, so the job would read its own output: name another folder"
    for key, path in (("checkpoint", checkpoint), ("dead_letter", letters)):
        if path is None:
            continue
        others = taken if key == "checkpoint" else [*taken, (checkpoint, "the checkpoint")]
        same = next((what for other, what in others if other is not None and _real(other) == _real(path)), None)
        if same is not None:
            yield key, f"{key}.path", f"is the same file as {same}: name another"
        elif source is not None and _reads(source, path):
            yield key, f"{key}.path", "is in the source folder, so the job would read it: name another folder"


def _path_of(endpoint: Endpoint) -> Path | None:
    """The path among the options; None without one."""
    path = getattr(endpoint.options, "path", None)
    return path if isinstance(path, Path) else None


def _reads(source: Path, file: Path) -> bool:
    """Whether a source with this path would read the file."""
    if is_unfinished(file.name):
        return False
    if source.is_file():
        return False
    plain = next((at for at, part in enumerate(source.parts) if glob.has_magic(part)), None)
    if plain is None or source.is_dir():
        return _real(file).parent == _real(source)
    folder, real = _real(Path(*source.parts[:plain])), _real(file)
    return real.is_relative_to(folder) and _matches(real.relative_to(folder).parts, source.parts[plain:])


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether the parts of a path match a pattern, in which ** stands for any number of folders."""
    if not parts or not pattern:
        return not parts and not pattern
    if pattern[0] == "**":
        return _matches(parts, pattern[1:]) or _matches(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
