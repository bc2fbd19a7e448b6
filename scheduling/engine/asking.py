"""In which orders candidates are gone through while a set of victims is grown.

Each order is good at something: single cards spread over nodes, whole nodes, few victims. None
decides: preempt.py takes the cheapest set that any of them leads to.
"""

from collections.abc import Callable

from .trial import Trial
from .victims import Victim

# Of very many candidates those are looked at who come first in one of the orders.
FIRST = 64


def narrowed(trial: Trial, candidates: list[Victim]) -> list[Victim]:
    """Return the candidates worth a look, in the order of victims: all, unless they are many.

    Cost: O(candidates log candidates), without a search for a place.
    """
    if len(candidates) <= len(ORDERS) * FIRST:
        return candidates
    first = {v.attempt for order in ORDERS for v in order(trial, candidates)[:FIRST]}
    return [victim for victim in candidates if victim.attempt in first]


def _cheapest(trial: Trial, candidates: list[Victim]) -> list[Victim]:
    return candidates


def _together(trial: Trial, candidates: list[Victim]) -> list[Victim]:
    """Cheapest first, node by node: the nodes on which one part's room costs least come first."""
    return _by_node(trial, candidates, Victim.key, lambda victim: victim.cost_us)


def _fewest(trial: Trial, candidates: list[Victim]) -> list[Victim]:
    """Largest first, node by node: the nodes on which fewest victims make one part's room."""
    return _by_node(trial, candidates, lambda victim: (-victim.gpus, victim.key()), lambda _: 1)


def _by_node(
    trial: Trial,
    candidates: list[Victim],
    key: Callable[[Victim], tuple[object, ...]],
    price: Callable[[Victim], int],
) -> list[Victim]:
    there: dict[int, list[Victim]] = {}
    for victim in sorted(candidates, key=key):
        for claim in victim.parts:
            there.setdefault(claim.node, []).append(victim)
    asked = -(-trial.job.gpus // max(trial.job.nodes, 1))
    prices = sorted(
        (
            not trial.could_hold(node),
            _price_of(there[node], asked - trial.free_on(node), node, price),
            node,
        )
        for node in there
    )
    ordered = dict.fromkeys(victim.attempt for _, _, node in prices for victim in there[node])
    known = {victim.attempt: victim for victim in candidates}
    return [known[attempt] for attempt in ordered]


def _price_of(
    victims: list[Victim], missing: int, node: int, price: Callable[[Victim], int]
) -> tuple[bool, int]:
    """Return whether a node stays too small without its victims, and what they cost till then."""
    total = 0
    for victim in victims:
        if missing <= 0:
            break
        missing -= sum(len(claim.gpus) for claim in victim.parts if claim.node == node)
        total += price(victim)
    return missing > 0, total


ORDERS: tuple[Callable[[Trial, list[Victim]], list[Victim]], ...] = (
    _together,
    _cheapest,
    _fewest,
)
