"""Jobs as rows of a table: placement as cells, time used, why it waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling import reasons
from scheduling.models import Attempt, Job, Part
from scheduling.states import DONE, LIVE, WAITING, JobState

from .floor import Cell
from .words import how, last_attempt, ran_s


@dataclass(frozen=True, slots=True)
class Place:
    """The cards a part of an attempt has or had on one node."""

    part: Part
    cells: tuple[Cell, ...]

    @property
    def numbers(self) -> str:
        """The cards' numbers on their node in words: "GPU 3", "GPUs 0-3, 6"."""
        indexes = sorted(cell.gpu.index for cell in self.cells if cell.gpu is not None)
        runs: list[list[int]] = []
        for index in indexes:
            if runs and index == runs[-1][-1] + 1:
                runs[-1].append(index)
            else:
                runs.append([index])
        told = ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs)
        return f"GPU{'s' if len(indexes) > 1 else ''} {told}" if told else ""

    @property
    def last_rank(self) -> int:
        return self.part.first_rank + self.part.ranks - 1


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job with what its row says. ``ran_s`` is None while it has not started."""

    job: Job
    hue: int
    places: tuple[Place, ...]
    ran_s: float | None
    why: str

    @property
    def live(self) -> bool:
        return self.job.state in LIVE

    @property
    def waiting(self) -> bool:
        return self.job.state in WAITING


def job_rows(jobs: Sequence[Job], hues: Mapping[int, int], now: datetime) -> list[JobRow]:
    """Rows for jobs that were fetched with their attempts, parts and leases. No query."""
    return [_row(job, hues.get(job.team_id, 0), now) for job in jobs]


def places(attempt: Attempt, hue: int) -> tuple[Place, ...]:
    """Where an attempt runs or ran, in the order of its ranks."""
    return tuple(
        Place(
            part,
            tuple(Cell(lease.card.gpu, "held", hue) for lease in part.leases.all()),
        )
        for part in attempt.parts.all()
    )


def _row(job: Job, hue: int, now: datetime) -> JobRow:
    attempt = last_attempt(job)
    told = reasons.sentences(job)
    why = told[0] if told else ""
    if job.state in DONE and attempt is not None:
        why = attempt.note or how(attempt)
    if job.state == JobState.STOPPING and attempt is not None:
        why = attempt.stop_note
    started = attempt is not None and attempt.started_at is not None
    return JobRow(
        job=job,
        hue=hue,
        places=places(attempt, hue) if attempt is not None and job.state in LIVE else (),
        ran_s=ran_s(attempt, now) if attempt is not None and started else None,
        why=why,
    )
