"""What an attempt that was cut short had saved and lost, in numbers and in words. Pure.

GPU-seconds lost are GPUs x (end - last complete checkpoint), or since the start without one, by
the node's own monotonic seconds where it told them.
"""

from collections.abc import Sequence
from datetime import datetime

from .models import Attempt, Part


def lost_gpu_s(gpus: int, attempt: Attempt, parts: Sequence[Part], *, at: datetime) -> int | None:
    """None for an attempt that never ran."""
    if attempt.started_at is None and not any(part.started_at for part in parts):
        return None
    told = [part.ran_s for part in parts if part.ran_s is not None]
    began_at = attempt.started_at or at
    ran_s = max(told) if told else ((attempt.gone_at or at) - began_at).total_seconds()
    return int(gpus * max(ran_s - (attempt.saved_s or 0.0), 0.0))


def sentence(
    attempt: Attempt, parts: Sequence[Part], grace_s: int, lost: int | None, *, note: str
) -> str:
    """Such as: preempted by job 42 (...) at ...; window 120 s; checkpoint step 1,200 saved after
    14 s; 0 GPU-seconds lost."""
    at = attempt.stop_asked_at
    when = f" at {at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
    told = [f"{note.rstrip('.')}{when}", f"window {grace_s} s"]
    first = next((part for part in parts if part.first_rank == 0), None)
    if lost is not None:
        told += [_saved(attempt, first), f"{lost:,} GPU-seconds lost"]
    return "; ".join(told) + "."


def _saved(attempt: Attempt, first: Part | None) -> str:
    cut = bool(first and first.progress.get("open"))
    if attempt.saved_step is None or attempt.saved_s is None:
        return "its only checkpoint was cut off" if cut else "no checkpoint"
    words = f"checkpoint step {attempt.saved_step:,}"
    asked_s = first.asked_s if first else None
    if asked_s is not None and attempt.saved_s >= asked_s:
        words += f" saved after {attempt.saved_s - asked_s:.0f} s"
    elif asked_s is not None:
        words += f" of {asked_s - attempt.saved_s:,.0f} s before"
    return words + (", a later one was cut off" if cut else "")
