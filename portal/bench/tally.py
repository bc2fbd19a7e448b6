"""Counting from the file the jobs wrote: what was lost and what was done twice. Pure.

A line is ``word run-id rank time gpus`` with word start, end or stopped. The file is the only
witness of what ran; the portal's own word is compared with it and never believed alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Line:
    word: str
    run: str
    rank: int
    at_s: float
    gpus: tuple[str, ...]

    @property
    def job(self) -> int:
        return int(self.run.partition("-")[0])


@dataclass(frozen=True, slots=True)
class Asked:
    """A job that was submitted: what is known of it outside the portal, and what the portal says.

    ``state`` is empty when the portal does not know the job.
    """

    job: int
    label: str
    ranks: int
    code: int
    cancelled: bool
    state: str


def read(text: str) -> list[Line]:
    """The lines in their order; half a line (its writer was killed) is left out."""
    found = []
    for parts in (written.split() for written in text.splitlines()):
        if len(parts) == 5 and parts[0] in ("start", "end", "stopped"):
            word, run, rank, at_s, gpus = parts
            found.append(Line(word, run, int(rank), float(at_s), tuple(gpus.split(","))))
    return found


def lost(asked: Sequence[Asked], lines: Sequence[Line]) -> list[str]:
    """One sentence for each job that was accepted and did not get what it asked for."""
    whole = _whole_runs(lines, {one.job: one.ranks for one in asked})
    done = Counter(int(run.partition("-")[0]) for run in whole)
    return [why for one in asked if (why := _loss(one, done[one.job]))]


def _loss(one: Asked, whole_runs: int) -> str:
    what = f"job {one.job} ({one.label})"
    if one.state not in ("COMPLETED", "FAILED", "CANCELLED"):
        return f"{what} is {one.state or 'unknown to the portal'}"
    if one.state == "CANCELLED" and one.cancelled:
        return ""
    expected = "FAILED" if one.code else "COMPLETED"
    if one.state != expected:
        return f"{what} is {one.state} and should be {expected}"
    return "" if whole_runs or one.code else f"{what} is {one.state} and did not write its end"


def doubled(asked: Sequence[Asked], lines: Sequence[Line]) -> list[str]:
    """One sentence for each run that started twice, job that was done twice, or key used twice."""
    starts = Counter((line.run, line.rank) for line in lines if line.word == "start")
    twice = [
        f"run {run} rank {rank} started {count} times"
        for (run, rank), count in starts.items()
        if count > 1
    ]
    whole = _whole_runs(lines, {one.job: one.ranks for one in asked})
    done = Counter(int(run.partition("-")[0]) for run in whole)
    twice += [f"job {job} was done {count} times" for job, count in done.items() if count > 1]
    labels = Counter(one.label for one in asked)
    return twice + [f"{label} became {count} jobs" for label, count in labels.items() if count > 1]


def overlapping(lines: Sequence[Line]) -> list[str]:
    """One sentence for each card on which a run began before the one before it had left."""
    spans: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for run, began_at, left_at, gpus in _spans(lines):
        for gpu in gpus:
            spans[gpu].append((began_at, left_at, run))
    found = []
    for gpu, used in spans.items():
        used.sort()
        for (_, left_at, first), (began_at, _, second) in pairwise(used):
            if began_at < left_at:
                found.append(
                    f"{second} began on {gpu} {left_at - began_at:.3f} s before {first} left"
                )
    return found


def _spans(lines: Iterable[Line]) -> list[tuple[str, float, float, tuple[str, ...]]]:
    """(run, first start, last sign of life, cards) of each rank that told when it left."""
    began: dict[tuple[str, int], Line] = {}
    left: dict[tuple[str, int], float] = {}
    for line in lines:
        if line.word == "start":
            began.setdefault((line.run, line.rank), line)
        else:
            left[line.run, line.rank] = line.at_s
    return [
        (run, first.at_s, left[run, rank], first.gpus)
        for (run, rank), first in began.items()
        if (run, rank) in left
    ]


def _whole_runs(lines: Sequence[Line], ranks: Mapping[int, int]) -> list[str]:
    """Runs of which every rank wrote its end."""
    ends: dict[str, set[int]] = defaultdict(set)
    for line in lines:
        if line.word == "end":
            ends[line.run].add(line.rank)
    return [run for run, seen in ends.items() if len(seen) >= ranks.get(_job(run), 1)]


def _job(run: str) -> int:
    return int(run.partition("-")[0])
