"""dCASTLE as printed, in one process."""
