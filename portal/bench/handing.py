"""From "accepted" to "the winner's process runs", when others have to save and leave for it.

Each round fills one node with low work that saves for two seconds when it is told to leave, waits
until it runs, and submits a high job that needs the whole node. The clocks of portal and nodes
must be one, as with demo nodes.
"""

import time
from collections.abc import Callable
from typing import Any

from portal.client import Client

from . import figures
from .stage import StageError

ASKED = {"winner_start_s": 3.0, "eight_victims_s": 5.0}
CARDS = 8
SAVES_S = 2
LIMIT_S = 60.0
POLL_S = 0.1
SETTLE_S = 1.0  # for the command to have set its trap, and the portal to be idle
VICTIM = (
    f"trap 'sleep {SAVES_S}; date +%s.%N; exit 90' TERM\nwhile :; do sleep 1000 & wait $!; done\n"
)
WINNER = "date +%s.%N"


def run(
    loser: Client, winner: Client, *, rounds: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Measure ``rounds`` times with one victim and with eight. Takes about 10 s a round."""
    starts: dict[int, list[float]] = {1: [], CARDS: []}
    gaps: list[float] = []
    for number in range(1, rounds + 1):
        for victims, waits_s in starts.items():
            waited_s, gap_s = one(loser, winner, victims)
            waits_s.append(waited_s)
            gaps.append(gap_s)
        say(f"{number} of {rounds}: {starts[1][-1]:.3f} s, of eight {starts[CARDS][-1]:.3f} s")
    return figures.answer("preempt", results(starts, gaps), most=ASKED)


def results(starts: dict[int, list[float]], gaps: list[float]) -> dict[str, float]:
    """The figures of the answer: medians, and the worst beside them, in seconds."""
    return {
        "rounds": len(starts[1]),
        "winner_start_s": round(figures.percentile(starts[1], 50), 3),
        "winner_start_most_s": round(max(starts[1]), 3),
        "eight_victims_s": round(figures.percentile(starts[CARDS], 50), 3),
        "eight_victims_most_s": round(max(starts[CARDS]), 3),
        "after_last_exit_s": round(figures.percentile(gaps, 50), 3),
        "after_last_exit_most_s": round(max(gaps), 3),
    }


def one(loser: Client, winner: Client, victims: int) -> tuple[float, float]:
    """One round. Seconds from accepted to started, and from the last victim's exit to started."""
    asked = {"command": VICTIM, "gpus": CARDS // victims, "priority": "low", "time_limit": "10m"}
    asked["team"] = "vision"
    ids = [loser.submit({"name": f"victim {n}", **asked})["id"] for n in range(victims)]
    for id in ids:
        _await(loser, id, "RUNNING")
    time.sleep(SETTLE_S)
    order = {
        "team": "speech",
        "name": "winner",
        "command": WINNER,
        "gpus": CARDS,
        "priority": "high",
    }
    won = winner.submit({**order, "time_limit": "5m"})["id"]
    accepted_at = time.time()
    _await(winner, won, "COMPLETED")
    started_at = _moment(winner, won)
    left_at = max(_moment(loser, id, attempt=1) for id in ids)
    for id in ids:
        loser.cancel(id)
    for id in ids:
        _await(loser, id, "CANCELLED")
    return started_at - accepted_at, started_at - left_at


def _await(client: Client, id: int, state: str) -> None:
    until = time.monotonic() + LIMIT_S
    while (job := client.job(id))["state"] != state:
        if job["done"] or time.monotonic() > until:
            raise StageError(f"Job {id} is {job['state']} and not {state}.")
        time.sleep(POLL_S)


def _moment(client: Client, id: int, attempt: int | None = None) -> float:
    """What a job's command read from its clock and printed."""
    log = client.log(id) if attempt is None else client.log(id, attempt=attempt)
    said = log.data.decode(errors="replace").split()
    for word in said:
        try:
            return float(word)
        except ValueError:
            continue
    raise StageError(f"Job {id} printed {' '.join(said)[:200]!r} instead of the time.")
