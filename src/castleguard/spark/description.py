"""`_castleguard.json` in the folder that Spark writes: what was promised for all that is in it.

A folder has one epoch here: a batch is written once, and a stream with another plan needs another folder. Its parts
have names that Spark gives them, so that there is no range of numbers to tell.
"""

import json
from pathlib import Path

from castleguard.config.job_model import JobFile
from castleguard.connectors.manifest import Manifest
from castleguard.errors import OutputError
from castleguard.privacy.guarantee import Guarantee
from castleguard.runtime.epochs import Described, Epochs
from castleguard.version import __version__


def describe(job: JobFile, guarantee: Guarantee, *, ended: str | None) -> None:
    """Write it, if the sink is a folder. At the start of a stream, and at the end of a batch: Spark makes the folder of
    a batch itself.
    """
    folder = getattr(job.sink.options, "path", None)
    if not isinstance(folder, Path):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise OutputError(f"{folder} cannot be written: {exc.strerror}") from exc
    identity = {"policy": job.policy.fingerprint(), "schema": job.schema.fingerprint(), "numbers": job.numbers}
    described = Described(identity=json.loads(json.dumps(identity, default=str)), guarantee=guarantee, counting=None)
    epochs = Epochs()
    epochs.begin(described, version=__version__, sink="", carried=False)
    content = epochs.manifest("")
    for epoch in content["epochs"]:
        epoch["parts"], epoch["ended"] = [None, None], ended
    Manifest(folder).write(content)
