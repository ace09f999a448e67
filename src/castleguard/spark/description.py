"""`_castleguard.json` in a Spark output folder: the statement for everything in it.

Such a folder has one epoch: a batch is written once, and a stream with another plan needs another folder. Spark names
the parts, so the manifest has no range of numbers.
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
    """Write the manifest, if the sink is a folder: at the start of a stream, and at the end of a batch.

    Not earlier for a batch, because Spark creates its folder itself.
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
