"""`_castleguard.json`: the description of a folder of parts for its readers.

It lists the parts with the policy and the guarantee under which they were published. Readers of data sets skip names
with a leading underscore. The job provides the content.
"""

import json
from pathlib import Path
from typing import Any

from castleguard.connectors.listing import MANIFEST
from castleguard.durable import write_durably
from castleguard.errors import OutputError


class Manifest:
    """The description of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def is_missing(self) -> bool:
        """Whether the file does not exist."""
        return not (self.folder / MANIFEST).is_file()

    def read(self) -> dict[str, Any]:
        """The description; one without epochs and statements if the file is missing or cannot be read."""
        nothing: dict[str, Any] = {"statements": {}, "epochs": []}
        try:
            found = json.loads((self.folder / MANIFEST).read_bytes())
            known = {name: set(each) for name, each in found["statements"].items()}
            sound = all(known[epoch["statement"]] >= _NEEDED and len(epoch["parts"]) == 2 for epoch in found["epochs"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return nothing
        return found if sound else nothing

    def write(self, content: dict[str, Any]) -> None:
        """Replace the file durably. A file with the same content keeps its modification time. Raises OutputError."""
        path = self.folder / MANIFEST
        text = (json.dumps(content, indent=1, sort_keys=True, default=str) + "\n").encode()
        try:
            if path.is_file() and path.read_bytes() == text:
                return
        except OSError as exc:
            raise OutputError(f"{path} cannot be written: {exc.strerror or 'I/O error'}") from exc
        write_durably(path, text)


_NEEDED = {"policy", "schema", "numbers"}
