"""What jobs told their nodes of checkpoints and progress, from reports to rows.

Owns Part.progress and what an attempt had saved last. A checkpoint of several parts counts when
every part that tells of checkpoints has it. Later news replace earlier; repeats change nothing.
Never decides what follows: ``recovery`` and ``placing`` do.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from .models import Attempt, Job, Part

log = logging.getLogger(__name__)
MOST_CHECKPOINTS, MOST_RANKS = 16, 64
GREATEST = 2**53

_Run = tuple[int, int, str]
_Told = dict[tuple[int, str], dict[str, Any]]


def take(said: Sequence[tuple[int, _Run | None, dict[str, Any]]], *, at: datetime) -> int:
    """Note what (node, run, report) tell that is news. Returns for how many parts.

    Cost: nothing where no report tells of progress, one query where none of it is news.
    """
    told: _Told = {}
    for node_id, run, report in said:
        progress = cleaned(report.get("progress"))
        if run is not None and progress is not None and progress["n"] > 0:
            told[node_id, report["run"]] = progress
    if not told:
        return 0
    runs = [run for _, run, report in said if run]
    news = {part.attempt.job_id for part in _parts(runs) if _is_news(part, told)}
    if not news:
        return 0
    with transaction.atomic():
        # the lock that whoever applies reports holds: neither overwrites the other
        list(Job.objects.select_for_update(of=("self",)).filter(pk__in=news).order_by("pk"))
        fresh = [part for part in _parts(runs) if _is_news(part, told)]
        for part in fresh:
            part.progress = told[part.node_id, part.attempt.run_id]
            part.save(update_fields=["progress"])
        for attempt in {part.attempt_id: part.attempt for part in fresh}.values():
            _note_saved(attempt, at=at)
    return len(fresh)


def _parts(runs: Sequence[_Run]) -> list[Part]:
    jobs, numbers = {run[0] for run in runs}, {run[1] for run in runs}
    found = Part.objects.filter(attempt__job__in=jobs, attempt__number__in=numbers)
    return list(found.select_related("attempt").order_by("pk"))


def _is_news(part: Part, told: _Told) -> bool:
    said = told.get((part.node_id, part.attempt.run_id))
    return said is not None and said["n"] > part.progress.get("n", 0)


def _note_saved(attempt: Attempt, *, at: datetime) -> None:
    parts = list(Part.objects.filter(attempt=attempt).order_by("node_rank"))
    telling = [p for p in parts if p.progress.get("checkpoints") or p.progress.get("open")]
    last = _last_complete(telling)
    started_at = (telling[0].started_at if telling else None) or at
    Attempt.objects.filter(pk=attempt.pk).update(
        saved_step=last["step"] if last else None,
        saved_path=last["path"] if last else "",
        saved_s=last["done_s"] if last else None,
        saved_at=started_at + timedelta(seconds=last["done_s"]) if last else None,
    )


def _last_complete(telling: Sequence[Part]) -> dict[str, Any] | None:
    """The newest checkpoint of the first part whose step all others have saved too."""
    if not telling:
        return None
    others = [{one["step"] for one in part.progress["checkpoints"]} for part in telling[1:]]
    own = sorted(telling[0].progress["checkpoints"], key=lambda one: one["done_s"])
    everywhere = [one for one in own if all(one["step"] in steps for steps in others)]
    return everywhere[-1] if everywhere else None


def cleaned(progress: Any) -> dict[str, Any] | None:
    """A node's account in the shape the rows keep, or None where it has not that shape."""
    if not isinstance(progress, dict) or not _whole(progress.get("n")):
        return None
    try:
        ranks = progress["ranks"]
        complete = [_checkpoint(one) for one in progress["checkpoints"]]
        return {
            "n": progress["n"],
            "checkpoints": complete[-MOST_CHECKPOINTS:],
            "open": [_numbers(one, "step", "begun_s") for one in progress["open"]][:MOST_RANKS],
            "step": progress["step"] if _whole(progress["step"]) else None,
            "ranks": {
                str(int(rank)): _numbers(ranks[rank], "step", "seconds", "comm_s", "at_s")
                for rank in list(ranks)[:MOST_RANKS]
            },
        }
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        log.warning("a node tells of progress in another shape: %r", wrong)
        return None


def _checkpoint(one: Any) -> dict[str, Any]:
    path = one["path"]
    if not isinstance(path, str) or not path or len(path) > 4096:
        raise ValueError("a checkpoint without a path")
    numbers = _numbers(one, "step", "bytes", "begun_s", "done_s")
    if not _whole(numbers["step"]) or not _whole(numbers["bytes"]) or numbers["done_s"] is None:
        raise ValueError("a checkpoint without its numbers")
    return {"path": path, **numbers}


def _numbers(one: Any, *names: str) -> dict[str, Any]:
    found = {name: one.get(name) for name in names}
    for name, value in found.items():
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= GREATEST
        ):
            raise ValueError(f"{name} is no number")
    return found


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < GREATEST
