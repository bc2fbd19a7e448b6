"""Who is next. Owns the one sort key of the queue; everything that speaks of order uses it.

Never looks at capacity. A new term (fair share, age) goes between priority and submit time.
"""

from collections.abc import Iterable

from .world import Job


def place_in_line(job: Job) -> tuple[int, int, int]:
    """Return the sort key of a job: higher priority, then earlier submission, then smaller id."""
    return (-job.priority, job.submitted_us, job.id)


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs in the order in which a cycle tries them. Cost: O(n log n)."""
    return sorted(jobs, key=place_in_line)
