"""What people are told: one sentence or two for each reason code, with its numbers.

Owns every word about waiting; nothing else puts a reason into words. Voice: short main clauses,
present tense, numbers with units, then the way round. A new code is a row of ``CATALOGUE`` and a
row of the table in ``docs/placement.md``; a test compares the two.
"""

from collections.abc import Callable

from .nearness import no_group, no_groups, no_level, together, too_many_nodes
from .phrases import (
    Numbers,
    are,
    awaiting,
    begins,
    booked,
    booked_quota,
    budget,
    depends,
    maintained,
    priority,
    slot_ahead,
    slot_full,
    too_wide,
)
from .world import Reason

_UNITS = {"cpus": "CPU cores", "memory": "GiB of RAM", "disk": "GiB of disk"}


def sentence(why: Reason) -> str:
    """Return a reason in words. A code without words is told by its name and numbers."""
    numbers = dict(why.numbers)
    if why.code in CATALOGUE:
        return CATALOGUE[why.code](numbers)
    figures = ", ".join(f"{name} {value}" for name, value in why.numbers)
    return f"{why.code}: {figures}." if figures else f"{why.code}."


def _backoff(n: Numbers) -> str:
    seconds = int(n["seconds"])
    wait = f"{seconds} s" if seconds < 120 else f"{-(-seconds // 60)} min"
    return f"It could not start a moment ago. It is tried again in {wait}."


def _quota_limit(n: Numbers) -> str:
    asked, held, limit = (_quota_amount(n, name) for name in ("asked", "held", "limit"))
    kind = _quota_kind(n)
    if n["limit"] == 0:
        return f"{n['team']} may hold no {kind}. An operator or its lead can raise the limit."
    if int(n["asked"]) > int(n["limit"]):
        return f"It asks for {asked} {kind}, and {n['team']} may hold {limit}. Ask for less."
    end = f"It starts when other jobs of {n['team']} end."
    if n["held"] == n["limit"]:
        return f"{n['team']} is at its limit, {limit} {kind}. {end}"
    return f"{n['team']} holds {held} of {limit} {kind}, and this job asks for {asked}. {end}"


def _quota_nominal(n: Numbers) -> str:
    kind = _quota_kind(n)
    return (
        f"{n['below']} holds {_milli(n['own'])} of its own {_milli(n['nominal'])} {kind}, "
        f"but others of {n['team']} have borrowed the rest: "
        f"{_milli(n['held'])} of {_milli(n['limit'])} are in use. "
        "It starts when they give it back."
    )


def _quota_borrow(n: Numbers) -> str:
    kind, left = _quota_kind(n), max(0, int(n["limit"]) - int(n["held"]))
    own = ""
    if "below" in n:
        own = f"{n['below']} holds {_milli(n['own'])} of its own {_milli(n['nominal'])} {kind}. "
    if n.get("firm"):
        return (
            f"{own}{n['team']} owes what is left to its other teams: {_milli(left)} more are there "
            f"for work that cannot be taken back, and this job needs {_milli(n['asked'])}. "
            "Choose a priority class that may be preempted, or wait."
        )
    return (
        f"{own}Above that it borrows, and {n['team']} has {_milli(left)} of "
        f"{_milli(n['limit'])} left to lend; this job needs {_milli(n['asked'])}. "
        "It starts when others end."
    )


def _user_limit(n: Numbers) -> str:
    kind = _quota_kind(n)
    held, limit, asked = (_milli(n[name]) for name in ("held", "limit", "asked"))
    if int(n["asked"]) > int(n["limit"]):
        may = f"One person of {n['team']} may hold {limit} {kind}"
        return f"{may}, and this job asks for {asked}. Ask for less."
    return (
        f"Its owner holds {held} of the {limit} {kind} that one person of {n['team']} may hold, "
        f"and this job asks for {asked}. It starts when their other jobs end."
    )


def _milli(amount: int | str) -> str:
    whole, milli = divmod(int(amount), 1000)
    return f"{whole}.{milli:03d}".rstrip("0") if milli else str(whole)


def _quota_kind(n: Numbers) -> str:
    what = str(n.get("of", n["what"]))
    return _cards(n) if what == "gpus" else _UNITS[what]


def _quota_amount(n: Numbers, name: str) -> str:
    """Return an amount in its unit; milli-GPU become cards, MiB become GiB."""
    amount = int(n[name])
    if n["unit"] != "milli":
        return _gib(amount) if n["unit"] == "mib" else str(amount)
    return _milli(amount)


def _resources(n: Numbers) -> str:
    if n["what"] == "gpus":
        return f"Needs {n['asked']} {_cards(n)}; {are(n['free'], 'is', 'are')} free.{_withheld(n)}"
    unit = _UNITS[str(n["what"])]
    free = f"{_amount(n, 'free')} of the {_amount(n, 'asked')} {unit} it needs there are free"
    return f"{n['node']} comes nearest, but only {free}. Ask for less, or wait until more are."


def _withheld(n: Numbers) -> str:
    told = [are(n[why], *words) for why, words in _WITHHELD.items() if why in n]
    return f" Of the rest, {_listed(told)}." if told else ""


def _listed(items: list[str]) -> str:
    return ", ".join([*items[:-2], " and ".join(items[-2:])])


_WITHHELD = {
    "failed": ("has failed", "have failed"),
    "degraded": ("is degraded", "are degraded"),
    "foreign": ("is in use by somebody outside", "are in use by somebody outside"),
    "releasing": ("is being cleaned", "are being cleaned"),
    "quarantined": ("is quarantined", "are quarantined"),
}


def _fragmented(n: Numbers) -> str:
    per_node, nodes, free = n["per_node"], int(n["nodes"]), n["free"]
    if nodes == 1:
        most = f"the most on one node is {n['most']}"
        return (
            f"Needs {per_node} {_cards(n)} on one node; {most}. {free} are free in all, in pieces."
        )
    roomy = are(n["roomy"], "node has", "nodes have")
    return (
        f"Needs {nodes} nodes with {per_node} free {_cards(n)} each; {roomy} them. "
        f"{free} are free in all, in pieces."
    )


def _node_unavailable(n: Numbers) -> str:
    nodes, left_out = int(n["nodes"]), int(n["left_out"])
    if left_out == nodes:
        told = "It could not start there a short while ago; it is tried there again soon."
    elif n["why"]:
        told = f"Out of use: {n['why']}."
    else:
        told = "It starts when they take work again." if nodes > 1 else "It waits for that node."
    return f"{n['names']}{_more(nodes)} could hold this job but cannot take it now. {told}"


def _more(nodes: int) -> str:
    return f" and {nodes - 3} more" if nodes > 3 else ""


def _never_fits(n: Numbers) -> str:
    return _NEVER[str(n["what"])](n)


def _no_model(n: Numbers) -> str:
    if not n["models"]:
        return f"No {n['asked']} in this pool. Choose another pool."
    return f"No {n['asked']} in this pool. It has {n['models']}; change the card model."


def _no_gpus(n: Numbers) -> str:
    kind, nodes = _cards(n), int(n["nodes"])
    have = f"No node has {n['asked']} {kind}; the largest has {n['largest']}."
    if nodes > 1:
        have = f"No {nodes} nodes have {n['asked']} {kind} each; {n['largest']} each is the most."
    if n["spread"]:
        return f"{have} Spread it over {n['spread']} nodes, or ask for fewer."
    return f"{have} Ask for {int(n['largest']) * nodes} or fewer."


def _no_side(n: Numbers) -> str:
    asked, largest = f"{_amount(n, 'asked')} {_UNITS[str(n['what'])]}", _amount(n, "largest")
    if int(n["nodes"]) > 1:
        have = f"No {n['nodes']} nodes with such cards have {asked} each"
    else:
        have = f"No node with such cards has {asked}"
    return f"{have}; the most is {largest}. Ask for that or less."


def _no_limit_so_high(n: Numbers) -> str:
    return _quota_limit({**n, "limit": n["largest"], "held": 0})


_NEVER: dict[str, Callable[[Numbers], str]] = {
    "split": lambda n: (
        f"{n['asked']} cards cannot be divided evenly over {n['nodes']} nodes. "
        "Ask for a multiple of the nodes."
    ),
    "pool": lambda n: "This pool has no cards. Choose another pool.",
    "model": _no_model,
    "card_memory": lambda n: (
        f"No {_card(n)} has {_gib(n['asked'])} GiB of memory; the largest has "
        f"{_gib(n['largest'])}. Ask for that or less."
    ),
    "labels": lambda n: f"No node with {_cards(n)} is labelled {n['asked']}. Ask for other labels.",
    "capability": lambda n: (
        f"No {_card(n)} has compute capability {_version(n['asked'])}; the highest is "
        f"{_version(n['largest'])}. Ask for that or less."
    ),
    "groups": no_groups,
    "level": no_level,
    "level_nodes": too_many_nodes,
    "tp": no_group,
    "nodes": lambda n: (
        f"Needs {n['asked']} nodes; {are(n['largest'], 'has', 'have')} such cards. "
        "Ask for fewer nodes."
    ),
    "gpus": _no_gpus,
    "cpus": _no_side,
    "memory": _no_side,
    "disk": _no_side,
    "limit": _no_limit_so_high,
}


def _amount(n: Numbers, name: str) -> str:
    return _gib(n[name]) if n["what"] == "memory" else str(n[name])


def _version(capability: int | str) -> str:
    return f"{int(capability) // 10}.{int(capability) % 10}"


def _gib(mib: int | str) -> str:
    return f"{int(mib) / 1024:.4g}"


def _cards(n: Numbers) -> str:
    return str(n.get("model") or "cards")


def _card(n: Numbers) -> str:
    return str(n.get("model") or "card")


CATALOGUE: dict[str, Callable[[Numbers], str]] = {
    "AwaitingPreemption": awaiting,
    "Backoff": _backoff,
    "BeginTime": begins,
    "BookedQuota": booked_quota,
    "Budget": budget,
    "Dependency": depends,
    "Fragmented": _fragmented,
    "Frozen": lambda n: (
        f"{n['by']} has stopped all placements: {n['why']}. It goes on when the freeze is lifted."
    ),
    "HeldAdmin": lambda n: (
        f"Held after {n['attempts']} placements that did not start; its attempts say why. "
        "Release it to try again."
    ),
    "HeldCrashes": lambda n: (
        f"Held after {n['attempts']} crashes in a row; its attempts say why. "
        "Correct the cause and release it to try again."
    ),
    "HeldUser": lambda n: "It is held. Release it, and it takes its place in the queue.",
    "Maintenance": maintained,
    "NeverFits": _never_fits,
    "NodeUnavailable": _node_unavailable,
    "NotEvaluated": lambda n: "Not looked at yet. It is looked at in the next cycle.",
    "PreemptionTooWide": too_wide,
    "Priority": priority,
    "QuotaBorrow": _quota_borrow,
    "QuotaLimit": _quota_limit,
    "QuotaNominal": _quota_nominal,
    "Reservation": booked,
    "Resources": _resources,
    "SlotAhead": slot_ahead,
    "SlotFull": slot_full,
    "Topology": together,
    "UserLimit": _user_limit,
}
