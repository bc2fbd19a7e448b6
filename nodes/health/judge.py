"""One look after another: which rules hold, since when, and what that makes of the card.

Pure. What must be remembered between looks is a ``Memory`` that can be stored as JSON; anything
unreadable in it counts as nothing remembered. A rule that held must fail to hold for its whole
``clears`` before it lets go, so that nothing flaps with every look.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .looks import Look
from .rules import BY_HAND, OK, RULES, WORST_LAST, Rule


@dataclass(frozen=True, slots=True)
class Held:
    """A rule's standing: looks in a row for it, looks in a row against it, whether it counts."""

    hits: int = 0
    misses: int = 0
    counts: bool = False
    evidence: str = ""


Memory = dict[str, Held]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worst of what counts; ``rule`` is the first of the worst, "" when all is well."""

    verdict: str
    rule: str = ""
    evidence: str = ""
    advice: str = ""


def judge(
    look: Look,
    memory: Mapping[str, Held],
    own: Mapping[int, str],
    rules: Iterable[Rule] = RULES,
) -> tuple[Memory, Verdict]:
    """Take one look into account. Cost: one call of each rule."""
    kept: Memory = {}
    for rule in rules:
        held = _after(rule, memory.get(rule.name, Held()), rule.says(look, own))
        if held != Held():
            kept[rule.name] = held
    return kept, verdict_of(kept, rules)


def verdict_of(memory: Mapping[str, Held], rules: Iterable[Rule] = RULES) -> Verdict:
    """What the rules that count make of a card."""
    counting = [rule for rule in rules if memory.get(rule.name, Held()).counts]
    if not counting:
        return Verdict(OK)
    worst = max(counting, key=lambda rule: WORST_LAST.index(rule.verdict))
    return Verdict(worst.verdict, worst.name, memory[worst.name].evidence, worst.advice)


def _after(rule: Rule, held: Held, evidence: str) -> Held:
    if evidence:
        hits = held.hits + 1
        return Held(hits, 0, held.counts or hits >= rule.needs, evidence[:500])
    if not held.counts:
        return Held()
    misses = held.misses + 1
    if rule.clears != BY_HAND and misses >= rule.clears:
        return Held()
    return Held(0, misses, True, held.evidence)


def stored(memory: Mapping[str, Held]) -> dict[str, Any]:
    """A memory as JSON."""
    return {
        name: [held.hits, held.misses, held.counts, held.evidence] for name, held in memory.items()
    }


def read(stored_memory: object) -> Memory:
    """A memory from JSON; what is malformed is left out."""
    if not isinstance(stored_memory, dict):
        return {}
    found: Memory = {}
    for name, row in stored_memory.items():
        match row:
            case [int(hits), int(misses), bool(counts), str(evidence)]:
                found[str(name)] = Held(hits, misses, counts, evidence)
    return found
