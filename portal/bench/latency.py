"""From "accepted" to "the process runs": one job after another on nodes that have nothing to do.

Accepted is when the answer of POST arrived here; the start is what the job's own first command
says the time is. Both clocks must be one, so the nodes must be on this machine, as demo nodes are.
"""

import time
from collections.abc import Callable
from typing import Any

from portal.client import Client

from . import figures
from .stage import StageError

ASKED = {"p50_s": 0.3, "p95_s": 0.8}
COMMAND = "date +%s.%N"
JOB_LIMIT_S = 60.0
POLL_S = 0.1
PAUSE_S = 0.6  # longer than the cycle's gap, so that each job finds the portal idle


def run(client: Client, *, team: str, jobs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure ``jobs`` jobs of ``team``. Takes about 1.2 s a job."""
    waits_s: list[float] = []
    for number in range(1, jobs + 1):
        waits_s.append(one(client, team))
        if number % 10 == 0 or number == jobs:
            say(f"{number} of {jobs}: p50 {figures.percentile(waits_s, 50):.3f} s")
        time.sleep(PAUSE_S)
    return figures.answer("latency", results(waits_s), most=ASKED)


def results(waits_s: list[float]) -> dict[str, float]:
    """The figures of the answer, in seconds."""
    of = {f"p{p}_s": round(figures.percentile(waits_s, p), 4) for p in (50, 95, 99)}
    ends = {"least_s": round(min(waits_s), 4), "most_s": round(max(waits_s), 4)}
    return {"jobs": len(waits_s), **of, **ends}


def one(client: Client, team: str) -> float:
    """Submit one job and wait for its end. Seconds from accepted to started."""
    order = {"team": team, "name": "latency", "command": COMMAND, "gpus": 1, "time_limit": "5m"}
    job_id = client.submit(order)["id"]
    accepted_at = time.time()
    until = time.monotonic() + JOB_LIMIT_S
    while not (job := client.job(job_id))["done"]:
        if time.monotonic() > until:
            raise StageError(f"Job {job_id} is still {job['state']} after {JOB_LIMIT_S:.0f} s.")
        time.sleep(POLL_S)
    said = client.log(job_id).data.decode(errors="replace").strip()
    try:
        return float(said) - accepted_at
    except ValueError:
        raise StageError(
            f"Job {job_id} ended {job['state']} and printed {said[:200]!r} instead of the time."
        ) from None
