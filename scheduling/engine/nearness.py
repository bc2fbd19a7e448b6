"""Words about how near cards lie: levels of the topology, tensor-parallel groups.

Owns the sentences of ``Topology`` and of what never fits for it; sentences.py lists them.
"""

from .phrases import Numbers, are, moment

_ONE = {
    "island": "on one island of a node",
    "node": "on one node",
    "rack": "in one rack",
    "block": "in one block",
}


def together(n: Numbers) -> str:
    """Say what the level lacks, and when or how the job would start without it."""
    one, kind = _ONE[str(n["level"])], n["model"]
    if int(n["most"]) < int(n["asked"]):
        short = f"Needs {n['asked']} {kind} {one}; at most {n['most']} are free in one."
    elif int(n["roomy"]) < int(n["nodes"]):
        short = (
            f"Needs {n['nodes']} nodes with {n['per_node']} free {kind} each {one}; "
            f"at most {are(n['roomy'], 'is', 'are')} in one."
        )
    else:
        short = f"Needs {n['asked']} {kind} {one}; no one has room for all of it."
    if n["next_s"]:
        return f"{short} From {moment(n['next_s'])} it takes the next wider level too."
    return f"{short} Without that level it would start now." if n["loose"] else short


def no_level(n: Numbers) -> str:
    """Say that no place of a required level could hold the job."""
    level = str(n["level"])
    if level == "island":
        return (
            f"No island has {n['asked']} {n['model']}; the largest has {n['largest']}. "
            "Ask for fewer, or for one node."
        )
    if int(n["largest"]) == 0:
        return f"No {level} is known that has such nodes. Ask for another level, or none."
    return (
        f"Needs {n['asked']} nodes {_ONE[level]}; the most in one is {n['largest']}. "
        "Ask for fewer nodes or a wider level."
    )


def too_many_nodes(n: Numbers) -> str:
    """Say that a job on several nodes cannot share a level below the rack."""
    one = _ONE[str(n["level"])]
    return f"A job on {n['asked']} nodes cannot be {one}. Ask for one node, or for a rack."


def no_group(n: Numbers) -> str:
    """Say that no node holds a tensor-parallel group."""
    return (
        f"A tensor-parallel group of {n['asked']} has to be on one node, and the largest has "
        f"{n['largest']} {n['model']}. Ask for a tp of {n['largest']} or less."
    )


def no_groups(n: Numbers) -> str:
    """Say that the cards on each node do not divide into tensor-parallel groups."""
    return (
        f"{n['per_node']} cards on each node do not divide into tensor-parallel groups of "
        f"{n['asked']}. The largest tp that would do is {n['largest']}."
    )
