"""The jobs of a fault round, and what is done to them at which moment. Pure: a seed decides all.

Every job writes a line when it starts and one when it ends, to a file that the portal does not
know. A line is ``word run-id rank time gpus``; ``tally`` reads them.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

ROUND_S = 3.5
JOBS_A_ROUND = 5
CANCELLED, FAILING, GANG = 0.2, 0.15, 0.3  # shares of all jobs

# The shell waits for its child before a trap runs, so the trap kills it; the fail-safe is KILL.
SCRIPT = """\
say() {{ echo "$1 $GANGWAY_RUN_ID $GANGWAY_NODE_RANK $(date +%s.%N) $GANGWAY_GPUS" >> {record}; }}
trap 'say stopped; exit 143' TERM
say start
sleep {seconds} & wait $!
say end
exit {code}
"""


@dataclass(frozen=True, slots=True)
class Ask:
    """One job to be submitted ``at_s`` into the round; ``label`` is its name and its key."""

    label: str
    at_s: float
    seconds: float
    nodes: int
    code: int
    cancel_at_s: float | None

    def order(self, team: str, record: str) -> dict[str, object]:
        """What is sent to the API."""
        script = SCRIPT.format(record=record, seconds=self.seconds, code=self.code)
        return {
            "team": team,
            "name": self.label,
            "command": script,
            "gpus": self.nodes,
            "nodes": self.nodes,
            "time_limit": "10m",
            "checkpoint": {"grace_s": 10},
        }


@dataclass(frozen=True, slots=True)
class Round:
    """``kill`` is struck ``kill_at_s`` into the round."""

    asks: Sequence[Ask]
    kill: str
    kill_at_s: float


def rounds(seed: int, count: int, names: Sequence[str]) -> list[Round]:
    """The same seed gives the same rounds. Each name is killed about equally often."""
    dice = random.Random(seed)  # noqa: S311 - a seeded play, no secret
    kills: list[str] = []
    while len(kills) < count:
        kills += dice.sample(list(names), len(names))
    return [_round(dice, number, kill) for number, kill in enumerate(kills[:count])]


def _round(dice: random.Random, number: int, kill: str) -> Round:
    asks = [_ask(dice, f"r{number}-{nth}") for nth in range(JOBS_A_ROUND)]
    return Round(asks, kill, round(dice.uniform(0.1, ROUND_S - 0.3), 3))


def _ask(dice: random.Random, label: str) -> Ask:
    at_s = round(dice.uniform(0.0, ROUND_S - 1.0), 3)
    cancelled = dice.random() < CANCELLED
    return Ask(
        label=label,
        at_s=at_s,
        seconds=round(dice.uniform(0.2, 3.0), 2),
        nodes=2 if dice.random() < GANG else 1,
        code=3 if dice.random() < FAILING else 0,
        cancel_at_s=round(at_s + dice.uniform(0.05, 2.5), 3) if cancelled else None,
    )
