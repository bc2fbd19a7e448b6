"""The one error of the supervisor: why it does not start, and what to do."""


class StartError(Exception):
    """The portal cannot start here. ``cause`` is a fact, ``next_step`` something to do."""

    def __init__(self, cause: str, *, next_step: str) -> None:
        super().__init__(f"{cause} {next_step}")
        self.cause = cause
        self.next_step = next_step
