"""The package's logger. A log line names columns, counts and remedies, never a row's value."""

import json
import logging
import time
from collections.abc import Mapping

LOG = logging.getLogger("castleguard")


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, message, job and commit. No tracebacks: they may contain values."""

    def __init__(self, facts: Mapping[str, object] | None = None) -> None:
        """`facts` are added to every line with their current values; fields of the record take precedence."""
        super().__init__()
        self._facts = {} if facts is None else facts

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        facts: dict[str, object] = {
            "time": f"{when}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        facts |= self._facts
        facts |= {name: getattr(record, name) for name in ("job", "commit") if hasattr(record, name)}
        return json.dumps(facts, ensure_ascii=False)
