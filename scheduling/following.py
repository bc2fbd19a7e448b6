"""Jobs that wait for the end of others: which of them have not ended, which not as they had to.

Reads rows, decides nothing. What has ended well is forgotten; what ended otherwise is told, and the
job waits until somebody cancels it: only its owner knows whether it still makes sense.
"""

from collections.abc import Iterable, Mapping

from .models import Job
from .states import DONE, JobState

# Not ended yet, ended otherwise.
Waits = tuple[tuple[int, ...], tuple[int, ...]]
NOTHING: Waits = ((), ())


def ends(jobs: Iterable[Job]) -> Mapping[int, str]:
    """The states of all jobs that these have to follow. At most one query."""
    ids = {id for job in jobs for id in job.after}
    return dict(Job.objects.filter(pk__in=ids).values_list("pk", "state")) if ids else {}


def waits_for(job: Job, states: Mapping[int, str]) -> Waits:
    """Of the jobs that one has to follow, those that keep it waiting."""
    if not job.after:
        return NOTHING
    running = tuple(id for id in job.after if states.get(id) not in DONE)
    lost = tuple(
        id
        for id in job.after
        if not job.after_any and id not in running and states[id] != JobState.COMPLETED
    )
    return running, lost
