"""What somebody can do about a job in each state, in one sentence. Empty: nothing is needed."""

from scheduling.models import Job
from scheduling.states import JobState

_STEPS = {
    JobState.HELD: "Release it when it may wait for its turn again.",
    JobState.PENDING: "It starts by itself when its reasons are gone.",
    JobState.FAILED: "Read the end of its log.",
    JobState.TIMEOUT: "Ask for a longer time_limit, or continue from its last checkpoint.",
    JobState.OUT_OF_MEMORY: "Ask for more memory_gib, or make it need less.",
    JobState.NODE_FAIL: "Submit it again; its node was lost.",
}


def next_step_of(job: Job) -> str:
    """The sentence for the state the job is in."""
    return _STEPS.get(JobState(job.state), "")
