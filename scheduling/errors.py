"""What scheduling refuses, in one family: a stable code, the cause, the next step.

Pages put the sentence on the form, the API makes a problem document of it. ``fields`` names the
fields of the order that are meant, each with its own sentence.
"""

from collections.abc import Mapping


class SchedulingError(Exception):
    """A refusal. ``cause`` states a fact with numbers, ``next_step`` what the reader can do."""

    code = "refused"
    status = 409

    def __init__(
        self, cause: str, *, next_step: str, fields: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{cause} {next_step}".strip())
        self.cause = cause
        self.next_step = next_step
        self.fields = dict(fields or {})


class InvalidOrder(SchedulingError):
    """The order is not one: a field is missing, unknown, or out of its bounds."""

    code = "invalid_order"
    status = 400


class NeverFits(SchedulingError):
    """No state of this inventory could ever hold the job."""

    code = "never_fits"
    status = 409


class Taken(SchedulingError):
    """Somebody has the cards then, or the team's limit is full; says when it would be possible."""

    code = "taken"
    status = 409


class AgainstRule(SchedulingError):
    """A rule of the team or of all forbids the booking; says which, with numbers."""

    code = "against_rule"
    status = 409


class WrongState(SchedulingError):
    """The job is not where this act makes sense."""

    code = "wrong_state"
    status = 409


class NotAllowed(SchedulingError):
    """The actor sees the thing and may not do this to it."""

    code = "not_allowed"
    status = 403


class NotFound(SchedulingError):
    """There is no such thing, or it is not the actor's to see."""

    code = "not_found"
    status = 404
