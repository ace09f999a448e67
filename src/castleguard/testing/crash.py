"""ScriptedCrash: simulates a power cut at a chosen step of a commit."""


class CrashError(BaseException):
    """The simulated end of the process: not an Exception, so that no handler catches it."""


class ScriptedCrash:
    """Crashes once, before step `step` of the `commit`-th commit that reaches it."""

    def __init__(self, *, commit: int, step: int) -> None:
        self._left = commit
        self._at = step
        self.crashed = False

    def __call__(self, step: int) -> None:
        """Pass as `step` to a job: called before every step."""
        if self.crashed or step != self._at:
            return
        self._left -= 1
        if self._left == 0:
            self.crashed = True
            raise CrashError
