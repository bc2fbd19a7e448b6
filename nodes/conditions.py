"""From a probe to verdicts on cards: the rules of ``health`` applied to rows, changes noted.

Only writer of ``Gpu.health``. Keeps an operator's override until its date, and bounds what rules
may do by themselves: a bad rule or a driver's upgrade looks just like mass failure. Never stops
a job: the floor above does what follows.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings

from .health import judge, looks
from .health.rules import DEGRADED, FAILED, OK, RULES
from .models import Gpu, HealthChange, Node
from .readings import Readings

log = logging.getLogger(__name__)

WINDOW = timedelta(minutes=10)
SHARE = 10  # one in so many cards may be failed by rules within the window, and one at least
WRITTEN = ["health", "conditions", "health_rule", "health_evidence", "override"]


def take(node: Node, before: Mapping[str, Gpu], readings: Readings, *, at: datetime) -> bool:
    """Judge every card of a node by one probe. True when a verdict changed.

    ``node`` and ``before`` (its cards by UUID) are as they were ahead of this probe. A driver that
    did not answer says nothing about cards.
    """
    if readings.facts["nvml_error"]:
        return False
    same_boot = node.boot_id == readings.boot_id
    seen = {card.uuid: card.facts for card in readings.cards}
    budget = _Budget(at)
    judged, changes = [], []
    for gpu in Gpu.objects.filter(node=node, parent__isnull=True).order_by("index", "pk"):
        was = before.get(gpu.uuid)
        facts = seen.get(gpu.uuid)
        if facts is None and (was is None or not (was.present or was.conditions)):
            continue  # taken out long ago
        look = looks.Look(
            facts or {},
            looks.deltas(facts or {}, was.facts if was else {}, same_boot),
            looks.xids(readings.kernel_lines, gpu.pci_bus_id),
            gone=facts is None,
        )
        stood = _standing(gpu)
        change = _judge(gpu, look, budget, boot_id=readings.boot_id, at=at)
        # Of a card that is well, nothing is to be remembered from one probe to the next.
        judged += [gpu] if _standing(gpu) != stood else []
        changes += [change] if change else []
    Gpu.objects.bulk_update(judged, WRITTEN)
    HealthChange.objects.bulk_create(changes)
    for one in changes:
        log.warning("%s GPU %s: %s to %s: %s", node.name, one.gpu.index, one.was, one.now, one.rule)
    return bool(changes)


def still_wrong(gpu: Gpu) -> judge.Verdict:
    """What the rules say of a card by its last facts alone, as if each look counted at once."""
    look = looks.Look(gpu.facts, gone=not gpu.present)
    at_once = [replace(rule, needs=1) for rule in RULES]
    return judge.judge(look, {}, settings.GANGWAY_XID_CLASSES, at_once)[1]


def change(gpu: Gpu, now: str, *, at: datetime, rule: str, evidence: str, actor: str) -> None:
    """Set a verdict by somebody's decision, and note it."""
    was, gpu.health = gpu.health, now
    gpu.health_rule, gpu.health_evidence = ("" if now == OK else rule), evidence
    gpu.save(
        update_fields=[*WRITTEN, "override_until", "override_reason"],
    )
    HealthChange.objects.create(
        gpu=gpu, at=at, was=was, now=now, rule=rule, evidence=evidence, actor=actor,
        boot_id=gpu.node.boot_id,
    )  # fmt: skip


def _standing(gpu: Gpu) -> list[object]:
    return [getattr(gpu, name) for name in WRITTEN]


class _Budget:
    """How many cards rules may still fail in this window."""

    def __init__(self, at: datetime) -> None:
        self._at = at
        self._left: int | None = None

    def take(self) -> bool:
        if self._left is None:
            most = max(1, Gpu.objects.filter(present=True).count() // SHARE)
            lately = HealthChange.objects.filter(now=FAILED, actor="", at__gt=self._at - WINDOW)
            self._left = most - lately.count()
        self._left -= 1
        return self._left >= 0


def _judge(
    gpu: Gpu, look: looks.Look, budget: _Budget, *, boot_id: str, at: datetime
) -> HealthChange | None:
    """Bring a card's row up to date with one look. Returns the change of verdict, if any."""
    memory = judge.read(gpu.conditions)
    memory, verdict = judge.judge(look, memory, settings.GANGWAY_XID_CLASSES)
    gpu.conditions = judge.stored(memory)
    was, now, evidence = gpu.health, verdict.verdict, verdict.evidence
    if now == FAILED and was != FAILED and not _overridden(gpu, at) and not budget.take():
        now = DEGRADED
        evidence += " More cards failed within 10 min than rules may take out; a person decides."
    if _overridden(gpu, at):
        now = gpu.override
    elif gpu.override:
        gpu.override = ""
    gpu.health, gpu.health_rule, gpu.health_evidence = now, verdict.rule, evidence
    if now == was:
        return None
    return HealthChange(
        gpu=gpu, at=at, was=was, now=now, rule=verdict.rule, evidence=evidence, boot_id=boot_id
    )


def _overridden(gpu: Gpu, at: datetime) -> bool:
    return bool(gpu.override) and gpu.override_until is not None and gpu.override_until > at


def advice_of(rules: Iterable[str]) -> dict[str, str]:
    """The advice of rules, by name."""
    known = {rule.name: rule.advice for rule in RULES}
    return {name: known[name] for name in rules if name in known}
