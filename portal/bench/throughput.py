"""How many short jobs a second: a full queue of ``/bin/true`` on 32 one-GPU slots over SSH.

The queue is filled through the API while the nodes take no work, as after a maintenance; then
they are opened and the ledger tells when the first started and the last ended. ``--straight``
leaves the nodes open, so that submitting and running share the machine.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import effort, figures
from .stage import Stage, StageError

LEAST = {"jobs_per_s": 20.0}
SLOTS_A_NODE = 8
SLOTS_A_TEAM = 16  # what a team of the demo may hold
TEAMS = (("alice", "vision"), ("bob", "speech"))
MOST_SLOTS = SLOTS_A_TEAM * len(TEAMS)
SENDERS = 2  # a team each
SILENT_S = 60.0

_OPEN = "UPDATE nodes_node SET accepts_work = %s"
_WAKE = "INSERT INTO nodes_wake (cause, made_at) VALUES ('nodes opened', now())"
_ENDED = "SELECT count(*) FROM scheduling_job WHERE ended_at IS NOT NULL"
_TIMES = """
SELECT min(j.submitted_at), min(a.placed_at), min(a.started_at), max(j.ended_at),
       count(*) FILTER (WHERE j.state = 'COMPLETED'), count(*)
FROM scheduling_job j LEFT JOIN scheduling_attempt a ON a.job_id = j.id
"""


def nodes_for(slots: int) -> int:
    """How many demo nodes that takes. Raises StageError for more than the demo's teams may hold."""
    if not 1 <= slots <= MOST_SLOTS:
        raise StageError(f"{slots} slots are not possible; the demo has 1 to {MOST_SLOTS}.")
    return -(-slots // SLOTS_A_NODE)


def run(
    stage: Stage, *, jobs: int, slots: int, straight: bool, say: Callable[[str], None]
) -> dict[str, Any]:
    """Measure on a stage with nothing else to do."""
    if not straight:
        _let_in(stage, False)
    filled_s = _fill(stage, jobs, say)
    before = effort.seconds(stage.pids())
    if not straight:
        _let_in(stage, True)
    _await_end(stage, jobs, say)
    cpu_s = effort.spent(before, effort.seconds(stage.pids()))
    with stage.database() as database:
        row = database.execute(_TIMES).fetchone()
    assert row is not None  # noqa: S101 - an aggregate has a row
    first_post, first_placed, first_start, last_end, completed, attempts = row
    if completed != jobs:
        raise StageError(f"{completed} of {jobs} jobs completed in {attempts} attempts.")
    measured = {
        "jobs_per_s": jobs / (last_end - first_start).total_seconds(),
        "jobs_per_s_from_placement": jobs / (last_end - first_placed).total_seconds(),
        "jobs_per_s_from_first_post": jobs / (last_end - first_post).total_seconds(),
        "posts_per_s": jobs / filled_s,
    }
    rounded = {name: round(value, 2) for name, value in measured.items()}
    cpu_ms = {name: round(spent_s * 1000 / jobs, 1) for name, spent_s in cpu_s.items()}
    told = {"jobs": jobs, "slots": slots, **rounded, "cpu_ms_a_job": cpu_ms}
    return figures.answer("throughput", told, least=LEAST)


def _let_in(stage: Stage, accepts: bool) -> None:
    with stage.database() as database:
        database.execute(_OPEN, [accepts])
        database.execute(_WAKE)


def _fill(stage: Stage, jobs: int, say: Callable[[str], None]) -> float:
    """Submit all jobs, the teams taking turns. Seconds it took."""
    began = time.monotonic()
    shares = [jobs // 2 + jobs % 2, jobs // 2]
    with ThreadPoolExecutor(SENDERS) as senders:
        list(senders.map(lambda who: _send(stage, *who), zip(TEAMS, shares, strict=True)))
    took_s = time.monotonic() - began
    say(f"{jobs} jobs submitted in {took_s:.1f} s")
    return took_s


def _send(stage: Stage, who: tuple[str, str], jobs: int) -> None:
    person, team = who
    client = stage.client(person)
    order = {"team": team, "command": "/bin/true", "gpus": 1, "time_limit": "5m"}
    for number in range(jobs):
        client.submit({**order, "name": f"{team}-{number}"})


def _await_end(stage: Stage, jobs: int, say: Callable[[str], None]) -> None:
    """Until every job has ended. Raises StageError when none ends for a minute."""
    ended, moved_at = 0, time.monotonic()
    with stage.database() as database:
        while ended < jobs:
            time.sleep(1.0)
            row = database.execute(_ENDED).fetchone()
            now = row[0] if row else 0
            if now != ended:
                ended, moved_at = now, time.monotonic()
                say(f"{ended} of {jobs} ended")
            elif time.monotonic() - moved_at > SILENT_S:
                raise StageError(f"No job ended within {SILENT_S:.0f} s; {ended} of {jobs} have.")
