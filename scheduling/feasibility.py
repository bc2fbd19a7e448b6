"""Could any state of these machines ever hold this job? Asked once, when it is submitted."""

from nodes import clock

from . import snapshot
from .engine import explain
from .errors import NeverFits
from .models import Job


def refuse_what_never_fits(job: Job) -> None:
    """Raise NeverFits, with the largest that could, for a job no state could hold."""
    never = explain.ever(snapshot.inventory(clock.now()), snapshot.engine_job(job))
    if never is not None:
        raise NeverFits(explain.sentence(never), next_step="")
