"""A crash at a place of one's choice: what a power cut does, at every step of a commit."""


class CrashError(BaseException):
    """The process is gone: no handler below may go on, and nothing is tidied up."""


class ScriptedCrash:
    """Dies before step `step` of the commit that is the `commit`-th to reach it, and never again."""

    def __init__(self, *, commit: int, step: int) -> None:
        self._left = commit
        self._at = step
        self.crashed = False

    def __call__(self, step: int) -> None:
        """To be called before every step."""
        if self.crashed or step != self._at:
            return
        self._left -= 1
        if self._left == 0:
            self.crashed = True
            raise CrashError
