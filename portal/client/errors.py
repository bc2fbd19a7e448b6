"""What can go wrong, each with its cause, its next step and the exit code of the command."""

from collections.abc import Mapping


class ClientError(Exception):
    """``cause`` is a fact, ``next_step`` what to do about it."""

    exit_code = 1

    def __init__(self, cause: str, *, next_step: str) -> None:
        super().__init__(f"{cause} {next_step}".strip())
        self.cause = cause
        self.next_step = next_step


class Usage(ClientError):
    """The command was called in a way that cannot be meant."""

    exit_code = 2


class Unreachable(ClientError):
    """No answer from the portal; whether it got the request is unknown."""

    exit_code = 3


class NoPortal(ClientError):
    """Something answered, but not as a portal does."""

    def __init__(self, cause: str) -> None:
        step = "Check that the address is a Gangway portal: gangway login --url URL"
        super().__init__(cause, next_step=step)


class Refused(ClientError):
    """The portal said no. ``code`` is stable, ``fields`` has a sentence for each field meant."""

    def __init__(
        self, cause: str, *, next_step: str, status: int, code: str, fields: Mapping[str, str]
    ) -> None:
        super().__init__(cause, next_step=next_step)
        self.status = status
        self.code = code
        self.fields = dict(fields)
