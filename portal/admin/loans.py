"""Loans of quota. A lead lends what is of the teams they lead, to any team; nobody edits a loan.

It is given back, by the borrower's lead or an operator, with the action; the lender's lead can do
so before it begins.
"""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from portal.access import Roles
from portal.htmx import roles_of
from scheduling.actors import Actor
from scheduling.errors import SchedulingError
from scheduling.models import Loan, Team
from scheduling.services import loans

from .scope import Scoped, actor, now
from .site import site


@admin.register(Loan, site=site)
class LoanAdmin(Scoped):
    """A dated transfer of nominal between two teams. 1000 milli-GPU are one card."""

    lead_writes = True
    list_display = ("lender", "borrower", "of_model", "gpus", "from_at", "until_at", "ended_at")
    fields = ("lender", "borrower", "gpu_model", "milli", "from_at", "until_at", "reason")
    list_select_related = ("lender", "borrower")
    actions = ("give_back",)

    @admin.display(description="GPU model")
    def of_model(self, row: Loan) -> str:
        return row.gpu_model or "all together"

    @admin.display(description="GPUs")
    def gpus(self, row: Loan) -> str:
        return f"{row.milli / 1000:g}"

    @admin.action(description="Give back now")
    def give_back(self, request: HttpRequest, chosen: QuerySet[Loan]) -> None:
        for row in chosen:
            if not _may_end(roles_of(request), row):
                messages.error(request, f"{row}: its borrower gives it back, or an operator.")
                continue
            try:
                loans.end(actor(request), row, at=now(), reason="admin page")
            except SchedulingError as why:
                messages.error(request, f"{why.cause} {why.next_step}")

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """From the own teams, to any: both are teams that jobs are submitted for."""
        leaves = Team.objects.filter(children__isnull=True)
        roles = roles_of(request)
        if db_field.name == "lender" and not roles.operator:
            leaves = leaves.filter(pk__in=roles.led)
        kwargs["queryset"] = leaves
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def store(self, actor: Actor, row: Loan) -> None:
        loans.make(actor, row, at=now())


def _may_end(roles: Roles, row: Loan) -> bool:
    if roles.operator or row.borrower_id in roles.led:
        return True
    return row.lender_id in roles.led and now() < row.from_at
