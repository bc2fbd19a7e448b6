"""The one error of the embedded servers: a cause and a next step, for people to read."""


class EmbeddedError(Exception):
    """An embedded server could not be set up or did not get ready.

    ``cause`` is one sentence of fact, ``next_step`` one sentence a person can act on.
    """

    def __init__(self, cause: str, *, next_step: str) -> None:
        super().__init__(f"{cause} {next_step}")
        self.cause = cause
        self.next_step = next_step
