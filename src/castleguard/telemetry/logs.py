"""The package's logger. A log line names columns, counts and remedies, never a row's value."""

import logging

LOG = logging.getLogger("castleguard")
