"""What a job has kept, looked at between two runs: checkpoint, dead letters, and what was promised before."""

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


def check_kept(job: JobFile) -> None:
    """Look at what the job has kept, and refuse it where `run` would: a checkpoint of another key, job, schema or
    policy, a file that holds no dead letters of this key. Nothing is changed. Raises UnavailableError if the job is
    running.
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
        make_site_stream(job, Relay().join(job.site), latest.snapshot)  # whom nobody hears
    else:
        make_stream(job, latest.snapshot)


def promised(job: JobFile) -> Guarantee:
    """The statement of the epoch that the job is in, or of the one that its next run begins. Nothing is changed. Raises
    UnavailableError if the job is running.
    """
    latest = None if job.sites is not None else latest_of(job)  # sites count no rows of a person
    if latest is None:
        return job.policy.guarantee(job.schema, seeded=False)
    epochs, stream = Epochs.of(latest), make_stream(job)
    if latest.snapshot is not None:
        return epochs.together(stream.describe())
    carried = latest.carried is not None and not stream.take_over(latest.carried)
    return epochs.together(stream.describe(), carried=carried)


def published_before(job: JobFile) -> dict[str, Any]:
    """What is known of the parts in the sink, as a manifest: from the folder itself, or from the checkpoint. Nothing is
    changed. Raises UnavailableError if the job is running.
    """
    manifest = manifest_of(job)
    if manifest is not None:
        return manifest.read()
    latest = latest_of(job)
    epochs = Epochs() if latest is None else Epochs.of(latest)
    return epochs.manifest(sink_name(identity_of(job)))


def latest_of(job: JobFile) -> Checkpoint | None:
    """The latest commit of a job, without a lock; None if there is none."""
    if job.checkpoint is None or not job.checkpoint.path.is_file():
        return None
    with Store(job.checkpoint.path, cipher=cipher_of(job), read_only=True) as store:
        return store.load()


def has_committed(job: JobFile) -> bool:
    """Whether the checkpoint of a job holds anything: a job that never ran has none. Raises UnavailableError if it is
    in use.
    """
    refuse_spark(job)
    if job.checkpoint is None or not job.checkpoint.path.exists():
        return False
    with Store(job.checkpoint.path, cipher=cipher_of(job)) as store:
        return store.load() is not None


def check_letters_are_gone(job: JobFile) -> None:
    """Refuse to change the key of a job while letters under the former one lie where it writes the next."""
    if job.dead_letter is not None and job.dead_letter.path.exists() and job.dead_letter.path.stat().st_size:
        raise OutputError(
            f"{job.dead_letter.path} holds letters that were written with the key of before, or without one: move it "
            f"away, then change the key. `castleguard letters --file` opens it as long as that key is there"
        )


def change_key(job: JobFile, key: bytes | None) -> None:
    """Seal the checkpoint of a drained job with another key, or with none. The job file still names the former one."""
    assert job.checkpoint is not None
    check_letters_are_gone(job)
    with Store(job.checkpoint.path, cipher=cipher_of(job)) as store:
        store.change_key(None if key is None else Cipher(key))
