"""Pools, priority classes, booking rules (operators change them); nodes (cordoned by action)."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from nodes.models import Node
from portal.htmx import roles_of
from scheduling.actors import Actor
from scheduling.models import BookingRule, Pool, PriorityClass
from scheduling.services import nodes, reservations, teams

from .scope import ReadOnly, Scoped, actor, now
from .site import site


class _Rules(Scoped):
    """Jobs point at these rows, so they are changed, never removed."""

    def store(self, actor: Actor, row: Pool | PriorityClass) -> None:
        teams.save_rules(actor, row, at=now())

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Pool, site=site)
class PoolAdmin(_Rules):
    list_display = ("name", "strategy", "default_time_limit_s", "max_time_limit_s", "access")


@admin.register(PriorityClass, site=site)
class PriorityClassAdmin(_Rules):
    list_display = ("name", "value", "may_preempt", "preemptible", "grace_s")


@admin.register(BookingRule, site=site)
class BookingRuleAdmin(Scoped):
    """What teams may book; the row without a team is everybody's."""

    list_display = ("__str__", "ahead_s", "length_s", "open_at_once", "gpu_hours_a_week")

    def store(self, actor: Actor, row: BookingRule) -> None:
        reservations.save_rule(actor, row, at=now())

    def remove(self, actor: Actor, row: BookingRule) -> None:
        reservations.remove_rule(actor, row, at=now())


@admin.register(Node, site=site)
class NodeAdmin(ReadOnly):
    """Nodes are enrolled at the command line; their private keys are shown nowhere."""

    list_display = ("name", "address", "liveness", "health", "accepts_work", "seen_at")
    list_filter = ("liveness", "health", "accepts_work")
    search_fields = ("name", "address")
    fields = (
        "name",
        "address",
        "port",
        "account",
        "host_key",
        "public_key",
        "labels",
        "rack",
        "block",
        "accepts_work",
        "liveness",
        "health",
        "silence",
        "alarm",
        "seen_at",
        "probed_at",
        "enrolled_at",
    )
    actions = ("cordon", "give_work")

    @admin.action(description="Cordon: no new work, jobs there run on")
    def cordon(self, request: HttpRequest, chosen: QuerySet[Node]) -> None:
        self._switch(request, chosen, accepts=False)

    @admin.action(description="Give work again")
    def give_work(self, request: HttpRequest, chosen: QuerySet[Node]) -> None:
        self._switch(request, chosen, accepts=True)

    def get_actions(self, request: HttpRequest) -> Any:
        return super().get_actions(request) if roles_of(request).operator else {}

    def _switch(self, request: HttpRequest, chosen: QuerySet[Node], *, accepts: bool) -> None:
        if not roles_of(request).operator:
            return
        for node in chosen:
            nodes.set_accepts_work(actor(request), node, accepts, at=now(), reason="admin page")
        messages.success(request, f"Done for {len(chosen)}.")
