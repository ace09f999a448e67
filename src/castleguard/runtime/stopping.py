"""Stop flag of a job, free of imports so that a signal handler can set it before the rest is loaded."""


class Stop:
    """Asks a job to commit and return. A signal handler may set it before the job exists."""

    asked = False

    def ask(self) -> None:
        """Set the flag."""
        self.asked = True
