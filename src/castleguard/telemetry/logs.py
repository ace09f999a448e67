"""The package's logger. A log line names columns, counts and remedies, never a row's value."""

import json
import logging
import time

LOG = logging.getLogger("castleguard")


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, message. Tracebacks are left out: they may hold values."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        facts: dict[str, object] = {
            "time": f"{when}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        facts |= {name: getattr(record, name) for name in ("job", "commit") if hasattr(record, name)}
        return json.dumps(facts, ensure_ascii=False)
