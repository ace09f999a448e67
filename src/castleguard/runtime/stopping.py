"""A wish to stop: light enough to be there before anything else is, because a signal may come at any moment."""


class Stop:
    """Says that a job is to commit and return soon. May be set by a signal handler, before the job is there."""

    asked = False

    def ask(self) -> None:
        """Ask it to stop."""
        self.asked = True
