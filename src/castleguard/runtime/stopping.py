"""Stop flag, free of imports so that a signal handler can set it before a job exists."""


class Stop:
    """Asks a job to commit and return soon. A signal handler or another thread may set it at any time."""

    asked = False

    def ask(self) -> None:
        """Set the flag."""
        self.asked = True
