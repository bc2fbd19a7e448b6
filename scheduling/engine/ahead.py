"""Who is ahead of whom: the waiting jobs that want the same cards, counted and named.

Pure. A job that names a model competes with those of that model and with those that take any.
"""

from collections import defaultdict

from .world import Job, Reason, reason

NAMED = 5


class Ahead:
    """Jobs that wait for room only, as they come in queue order."""

    def __init__(self) -> None:
        self._seen = 0
        self._count: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._first: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def add(self, job: Job) -> None:
        """Let a job stand ahead of those that come after it."""
        self._seen += 1
        self._count[job.pool][job.gpu_model] += 1
        first = self._first[job.pool][job.gpu_model]
        if len(first) < NAMED:
            first.append((self._seen, job.id))

    def of(self, job: Job) -> list[Reason]:
        """Return Priority with how many are ahead and the first of their ids, or nothing."""
        counts, firsts = self._count[job.pool], self._first[job.pool]
        models = sorted({job.gpu_model, ""} if job.gpu_model else counts)
        count = sum(counts[model] for model in models)
        if not count:
            return []
        first = sorted(place for model in models for place in firsts[model])[:NAMED]
        return [reason("Priority", ahead=count, jobs=", ".join(str(id) for _, id in first))]
