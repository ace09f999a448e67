"""Stored state of a job, read between two runs: checkpoint, dead letters, and earlier promises."""

from pathlib import Path
from typing import Any

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.dead_letters import check_letters
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.config.job_model import JobFile
from castleguard.errors import OutputError
from castleguard.jobs.assemble import make_site_stream, make_stream, refuse_spark
from castleguard.jobs.endpoints import cipher_of, manifest_of
from castleguard.jobs.identity import identity_of
from castleguard.privacy.guarantee import Guarantee
from castleguard.runtime.epochs import Epochs, sink_name
from castleguard.runtime.recovery import check_identity
from castleguard.sites.memory_relay import Relay


def check_stored(job: JobFile) -> None:
    """Refuse stored state that `run` would refuse: a checkpoint of another key, job, schema or policy, or a dead letter
    file of another key. Changes nothing. Raises UnavailableError if the job is running.
    """
    if job.checkpoint is not None and job.checkpoint.path.exists():
        _check_checkpoint(job, job.checkpoint.path)
    if job.dead_letter is not None:
        check_letters(job.dead_letter.path, cipher=cipher_of(job))


def _check_checkpoint(job: JobFile, path: Path) -> None:
    with Store(path, cipher=cipher_of(job), read_only=True) as store:
        latest = store.load()
    if latest is None or (latest.ended == "drained" and latest.delivered):
        return
    check_identity(identity_of(job), latest)
    if latest.snapshot is None:
        return
    if job.site is not None:
        make_site_stream(job, Relay().join(job.site), latest.snapshot)  # a relay in memory, without other sites
    else:
        make_stream(job, latest.snapshot)


def promised(job: JobFile) -> Guarantee:
    """The promise of the current epoch, or of the epoch that the next run starts. Changes nothing. Raises
    UnavailableError if the job is running.
    """
    latest = None if job.sites is not None else latest_of(job)  # sites do not count the rows of a person
    if latest is None:
        return job.policy.guarantee(job.schema, seeded=False)
    epochs, stream = Epochs.of(latest), make_stream(job)
    if latest.snapshot is not None:
        return epochs.together(stream.describe())
    carried = latest.carried is not None and not stream.take_over(latest.carried)
    return epochs.together(stream.describe(), carried=carried)


def published_before(job: JobFile) -> dict[str, Any]:
    """The manifest of the parts in the sink, from its folder or from the checkpoint. Changes nothing. Raises
    UnavailableError if the job is running.
    """
    manifest = manifest_of(job)
    if manifest is not None:
        return manifest.read()
    latest = latest_of(job)
    epochs = Epochs() if latest is None else Epochs.of(latest)
    return epochs.manifest(sink_name(identity_of(job)))


def latest_of(job: JobFile) -> Checkpoint | None:
    """The latest commit of a job, read without a lock; None before the first."""
    if job.checkpoint is None or not job.checkpoint.path.is_file():
        return None
    with Store(job.checkpoint.path, cipher=cipher_of(job), read_only=True) as store:
        return store.load()


def has_committed(job: JobFile) -> bool:
    """Whether the checkpoint holds a commit. Raises UnavailableError if it is in use."""
    refuse_spark(job)
    if job.checkpoint is None or not job.checkpoint.path.exists():
        return False
    with Store(job.checkpoint.path, cipher=cipher_of(job)) as store:
        return store.load() is not None


def check_letters_are_gone(job: JobFile) -> None:
    """Refuse to change the key while the dead letter file holds letters under the old one."""
    if job.dead_letter is not None and job.dead_letter.path.exists() and job.dead_letter.path.stat().st_size:
        raise OutputError(
            f"{job.dead_letter.path} holds dead letters written with the old key, or without a key: move the file "
            f"away, then change the key. `castleguard letters --file` reads it while the job file has the old key"
        )


def change_key(job: JobFile, key: bytes | None) -> None:
    """Encrypt the checkpoint of a drained job with another key, or with none. The job file still names the old key."""
    assert job.checkpoint is not None
    check_letters_are_gone(job)
    with Store(job.checkpoint.path, cipher=cipher_of(job)) as store:
        store.change_key(None if key is None else Cipher(key))
