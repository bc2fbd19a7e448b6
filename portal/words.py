"""What pages say about a job: its lead sentence, its badge, its history, what stopping costs.

Sentences are made here, once; templates only place them. Names that people gave are never part
of a sentence: the template sets them apart. Why a job waits is the engine's to say.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduling.models import Attempt, Job, JobLog, Part
from scheduling.predictions import Prediction
from scheduling.states import CHARGED, DONE, JobEvent, JobState

S = JobState
UNITS = ((86400, "d"), (3600, "h"), (60, "min"))

# state -> (colour, icon, word)
BADGES: dict[str, tuple[str, str, str]] = {
    S.PENDING: ("wait", "clock", "Waiting"),
    S.HELD: ("wait", "pause", "Held"),
    S.PLACED: ("run", "play", "Starting"),
    S.STARTING: ("run", "play", "Starting"),
    S.RUNNING: ("run", "play", "Running"),
    S.STOPPING: ("warn", "clock", "Stopping"),
    S.CLEANING: ("wait", "clock", "Ending"),
    S.COMPLETED: ("good", "check", "Completed"),
    S.FAILED: ("bad", "x", "Failed"),
    S.TIMEOUT: ("warn", "clock", "Time limit"),
    S.CANCELLED: ("wait", "x", "Cancelled"),
    S.OUT_OF_MEMORY: ("bad", "x", "Out of memory"),
    S.NODE_FAIL: ("bad", "alert", "Node lost"),
}

OUTCOMES: dict[str, str] = {
    Attempt.Outcome.COMPLETED: "completed",
    Attempt.Outcome.FAILED: "failed",
    Attempt.Outcome.OUT_OF_MEMORY: "ran out of memory",
    Attempt.Outcome.TIME_LIMIT: "reached its time limit",
    Attempt.Outcome.CANCELLED: "cancelled",
    Attempt.Outcome.WITHDRAWN: "taken back before it started",
    Attempt.Outcome.LAUNCH_FAILED: "could not be started",
    Attempt.Outcome.NODE_LOST: "its node was lost",
    Attempt.Outcome.UNSUPERVISED: "its keeper was killed, so how it ended is unknown",
    Attempt.Outcome.DRAINED: "moved off a node that was drained",
    Attempt.Outcome.PREEMPTED: "preempted",
    Attempt.Outcome.RECLAIMED: "stopped to give lent cards back",
    Attempt.Outcome.CARD_FAILED: "a card failed",
    Attempt.Outcome.CONTENTION: "stopped where others used its card",
}

# event -> (icon, what happened)
EVENTS: dict[str, tuple[str, str]] = {
    JobEvent.SUBMIT: ("plus", "Submitted"),
    JobEvent.HOLD: ("pause", "Held"),
    JobEvent.RELEASE: ("play", "Released, waits for its turn again"),
    JobEvent.PLACE: ("chip", "Placed on cards"),
    JobEvent.WITHDRAW: ("clock", "Placement taken back"),
    JobEvent.BEGIN: ("play", "Being started on its nodes"),
    JobEvent.START: ("play", "Started"),
    JobEvent.REFUSE: ("alert", "A node refused it"),
    JobEvent.STOP: ("clock", "Asked to stop"),
    JobEvent.NODE_DEAD: ("alert", "A node was lost"),
    JobEvent.RANK_FAILED: ("x", "One rank failed, the others are stopped"),
    JobEvent.GONE: ("check", "All processes are gone"),
    JobEvent.CANCEL: ("x", "Cancelled"),
    JobEvent.COMPLETE: ("check", "Completed"),
    JobEvent.FAIL: ("x", "Failed"),
    JobEvent.TIME_OUT: ("clock", "Ended by its time limit"),
    JobEvent.END_CANCELLED: ("x", "Ended, cancelled"),
    JobEvent.OUT_OF_MEMORY: ("x", "Ran out of memory"),
    JobEvent.NODE_FAIL: ("alert", "Ended with its node"),
    JobEvent.AGAIN: ("clock", "Back in the queue"),
    JobEvent.GIVE_UP: ("pause", "Held after too many attempts"),
}

ACTORS = {
    "system:cycle": "the scheduler",
    "system:launch": "the launcher",
    "system:nodes": "its nodes",
    "system:clock": "the clock",
    "system:command line": "an operator at the command line",
}


# Why nobody can tell by when a job starts.
UNSURE = {
    "unknown": "Nobody can tell by when: no time limit says when what it needs comes free.",
    "quota": "By when depends on the other jobs of its team.",
    "dependency": "By when depends on the jobs it follows.",
}


@dataclass(frozen=True, slots=True)
class Lead:
    """The rest of the heading after the job's name: its weighty part, then the rest."""

    strong: str
    rest: str


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of a job's history."""

    at: datetime
    icon: str
    what: str
    who: str
    note: str
    attempt: int | None


@dataclass(frozen=True, slots=True)
class Starts:
    """When a waiting job starts: ``about`` one moment, or ``between`` two, and what is not known.

    All empty when nothing was foretold yet.
    """

    about: datetime | None = None
    between: tuple[datetime, datetime] | None = None
    not_before: datetime | None = None
    unsure: str = ""


@dataclass(frozen=True, slots=True)
class Loss:
    """What stopping a job now gives up."""

    cards: int
    ran_s: float
    grace_s: int

    @property
    def gpu_hours(self) -> str:
        hours = self.cards * self.ran_s / 3600
        return f"{hours:.1f}" if hours >= 0.05 else "under 0.1"


def duration(seconds: float) -> str:
    """ "45 s", "3 min", "19 h 24 min", "2 d 1 h": two units at most, rounded down."""
    left = max(int(seconds), 0)
    if left < 60:
        return f"{left} s"
    told: list[str] = []
    for size, unit in UNITS:
        count, left = divmod(left, size)
        if count or told:
            told.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in told[:2] if part)


def count(number: int, one: str, many: str = "") -> str:
    """ "1 GPU", "3 GPUs"."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def lead(job: Job, now: datetime) -> Lead:
    """Say where a job stands, with the number somebody came for."""
    attempt = last_attempt(job)
    gpus = count(job.gpus, "GPU")
    if job.state == S.PENDING:
        where = "" if job.nodes == 1 else f" on {job.nodes} nodes"
        return Lead(f"waits for {_model(job, gpus)}{where}", f", {_since(job.submitted_at, now)}.")
    if job.state == S.HELD:
        return Lead("is held", " and will not start until it is released.")
    if attempt is None or job.state in DONE:
        return _ended(job, attempt, gpus)
    return _live(job, attempt, gpus, now)


def _live(job: Job, attempt: Attempt, gpus: str, now: datetime) -> Lead:
    where = f" of {_places(attempt)}"
    if job.state in (S.PLACED, S.STARTING):
        return Lead(f"starts on {gpus}", f"{where}.")
    if job.state == S.STOPPING:
        return Lead("is stopping", f": {_leaving(job, attempt)}")
    if job.state == S.CLEANING:
        return Lead("has ended", "; its outcome and log are being kept.")
    return Lead(f"runs on {gpus}", f"{where}, {_since(attempt.started_at, now)}.")


def _leaving(job: Job, attempt: Attempt) -> str:
    """Say for whom or what it stops, until when it may save, and what is safe already."""
    why = attempt.stop_note or attempt.stop_reason or "asked to"
    if attempt.stop_asked_at is None:
        return f"{why}."
    ends = attempt.stop_asked_at + timedelta(seconds=job.grace_s)
    said = f"{why} at {attempt.stop_asked_at:%H:%M:%S} UTC; "
    said += f"its window of {job.grace_s} s ends at {ends:%H:%M:%S} UTC."
    if attempt.saved_step is None:
        return said
    return f"{said} Saved so far: step {attempt.saved_step:,}."


def _ended(job: Job, attempt: Attempt | None, gpus: str) -> Lead:
    if attempt is None or attempt.started_at is None:
        return Lead("was cancelled" if job.state == S.CANCELLED else "ended", " before it started.")
    took = f" after {duration(ran_s(attempt, job.ended_at or attempt.started_at))} on {gpus}."
    if job.state == S.FAILED:
        return Lead(f"failed {how(attempt)}".rstrip(), took)
    told = {
        S.COMPLETED: "completed",
        S.TIMEOUT: f"reached its time limit of {duration(job.time_limit_s)}",
        S.CANCELLED: "was cancelled",
        S.OUT_OF_MEMORY: "ran out of memory",
        S.NODE_FAIL: "ended with its node",
    }
    return Lead(told[S(job.state)], took)


def how(attempt: Attempt) -> str:
    """ "with exit code 1", "by signal 9", "on rank 3 with exit code 1", or empty."""
    for part in attempt.parts.all():
        rank = f"on rank {part.failed_rank} " if part.failed_rank else ""
        if part.exit_signal:
            return f"{rank}by signal {part.exit_signal}"
        if part.exit_code:
            return f"{rank}with exit code {part.exit_code}"
    return ""


def last_attempt(job: Job) -> Attempt | None:
    """The newest attempt, without a query when they were fetched with the job."""
    attempts = list(job.attempts.all())
    return max(attempts, key=lambda attempt: attempt.number, default=None)


def ran_s(attempt: Attempt, now: datetime) -> float:
    """Seconds an attempt has run, as its nodes measured once it is gone."""
    measured = [part.ran_s for part in attempt.parts.all() if part.ran_s is not None]
    if attempt.gone_at is not None and measured:
        return max(measured)
    if attempt.started_at is None:
        return 0.0
    return ((attempt.gone_at or now) - attempt.started_at).total_seconds()


def loss(job: Job, now: datetime) -> Loss:
    """What a cancel would give up at worst: the time of the attempt that has cards now."""
    attempt = last_attempt(job)
    running = attempt is not None and job.state in CHARGED
    return Loss(
        cards=job.gpus if running else 0,
        ran_s=ran_s(attempt, now) if attempt is not None and running else 0.0,
        grace_s=job.grace_s,
    )


def happened(entry: JobLog) -> Happened:
    """A log entry in words."""
    icon, what = EVENTS.get(entry.event, ("dot", entry.event))
    who = ACTORS.get(entry.actor, entry.actor)
    return Happened(entry.at, icon, what, who, entry.note, entry.attempt)


def starts(start: Prediction) -> Starts:
    """A prediction as it is told. One that is known to five minutes is told as one moment."""
    first, last = start.start_from, start.start_by
    if first is None or last is None:
        return Starts(not_before=first, unsure=UNSURE.get(start.unsure, ""))
    if last - first <= timedelta(minutes=5):
        return Starts(about=last)
    return Starts(between=(first, last))


def _since(start: datetime | None, now: datetime) -> str:
    if start is None:
        return "just started"
    return f"for {duration((now - start).total_seconds())}"


def _model(job: Job, gpus: str) -> str:
    return f"{gpus} ({job.gpu_model})" if job.gpu_model else gpus


def _places(attempt: Attempt) -> str:
    parts: list[Part] = list(attempt.parts.all())
    if len(parts) == 1:
        return parts[0].node.name
    return count(len(parts), "node")
