"""Which rows of each table a person sees in the admin, and the base of all its classes.

The same scope narrows lists, single pages, history, bulk actions, auto-completion and the
choices of foreign keys, so that no address and no posted id reaches another tenant's row.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.db.models import Model, Q, QuerySet
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse

from nodes import clock
from nodes.models import Node
from portal.access import AUDITORS, OPERATORS, Roles
from portal.htmx import roles_of
from scheduling.actors import Actor, person
from scheduling.errors import SchedulingError
from scheduling.models import (
    AuditEntry,
    BookingRule,
    JobLog,
    Loan,
    Member,
    Pool,
    PriorityClass,
    Quota,
    Team,
)

from .site import NAMES

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Any]
else:
    Base = admin.ModelAdmin

NOBODY = Q(pk__in=())


def _people(roles: Roles) -> Q:
    """The people of the subtree, and those who are in no team yet and hold no office."""
    new = Q(memberships__isnull=True, is_superuser=False, is_active=True)
    office = Q(groups__name__in=(OPERATORS, AUDITORS))
    known = Q(memberships__team_id__in=roles.led) | (new & ~office)
    return Q(pk__in=User.objects.filter(known).values("pk"))


# What a lead sees; operators and auditors see all.
SCOPES: dict[type[Model], Callable[[Roles], Q]] = {
    Team: lambda roles: Q(pk__in=roles.led),
    Member: lambda roles: Q(team_id__in=roles.led),
    Quota: lambda roles: Q(team_id__in=roles.led),
    Loan: lambda roles: Q(lender_id__in=roles.led) | Q(borrower_id__in=roles.led),
    User: _people,
    AuditEntry: lambda roles: Q(team_id__in=roles.led),
    JobLog: lambda roles: Q(job__team_id__in=roles.led),
    PriorityClass: lambda roles: NOBODY,
    Pool: lambda roles: NOBODY,
    BookingRule: lambda roles: NOBODY,
    Node: lambda roles: NOBODY,
}


def seen(rows: QuerySet[Any], request: HttpRequest) -> QuerySet[Any]:
    """The rows of a table that the person sees; of a table without a scope none."""
    roles = roles_of(request)
    if roles.operator or roles.auditor:
        return rows
    scope = SCOPES.get(rows.model)
    return rows.filter(scope(roles)) if scope else rows.none()


class Scoped(Base):
    """A table in its scope. ``lead_writes``: leads change rows too, where ``writable`` says so."""

    lead_writes = False
    list_per_page = 50
    show_full_result_count = False

    def store(self, actor: Actor, row: Any) -> None:
        """Save through the service of the table."""
        raise NotImplementedError

    def remove(self, actor: Actor, row: Any) -> None:
        """Remove through the service of the table."""
        raise NotImplementedError

    def writable(self, roles: Roles, row: Any) -> bool:
        """May a lead change this row, which is in their scope?"""
        return self.lead_writes

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return seen(super().get_queryset(request), request)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only the filters beside the list.

        Any other condition would answer, row by row, questions about columns that are shown to
        nobody, such as a password's digest.
        """
        filters = {str(one[0] if isinstance(one, tuple) else one) for one in self.list_filter}
        return lookup.split("__")[0] in filters and super().lookup_allowed(lookup, value, request)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs.setdefault("queryset", seen(db_field.remote_field.model.objects.all(), request))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Without the small buttons that open other tables in windows of their own."""
        made = super().formfield_for_dbfield(db_field, request, **kwargs)
        if made is not None and isinstance(made.widget, RelatedFieldWidgetWrapper):
            made.widget = made.widget.widget
        return made

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        roles = roles_of(request)
        if roles.operator or roles.auditor:
            return True
        scope = SCOPES.get(self.model)
        return bool(roles.led) and scope is not None and scope(roles) != NOBODY

    def has_add_permission(self, request: HttpRequest) -> bool:
        roles = roles_of(request)
        return roles.operator or (self.lead_writes and bool(roles.led))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        roles = roles_of(request)
        if roles.operator:
            return True
        if not self.lead_writes or not roles.led:
            return False
        return obj is None or self.writable(roles, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_change_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        self.store(actor(request), obj)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.remove(actor(request), obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """In bulk as one by one; a row that the person may not change stays."""
        roles = roles_of(request)
        for row in queryset:
            if roles.operator or self.writable(roles, row):
                self.remove(actor(request), row)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """The form, with a refusal of the service on its fields when it is shown again."""
        made = super().get_form(request, obj, change, **kwargs)
        return type("Refusable", (_Refusable, made), {"why": getattr(request, "refused", None)})

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> HttpResponse:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except SchedulingError as why:
            # Everything was rolled back; the same form is judged again with the refusal on it.
            request.refused = why  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """A list is headed by what it lists. A bulk action on what are no ids is not read."""
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if not all(pk.isascii() and pk.isdigit() for pk in chosen):
            raise BadRequest("The action names rows by something else than their ids.")
        name = NAMES.get(self.model.__name__, str(self.opts.verbose_name_plural).capitalize())
        return super().changelist_view(request, {"title": name} | (extra_context or {}))

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().delete_view(request, *args, **kwargs)
        except SchedulingError as why:
            messages.error(request, f"{why.cause} {why.next_step}")
            return self.response_post_save_change(request, None)

    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: Any, object_id: str
    ) -> HttpResponse:
        raise Http404


class ReadOnly(Scoped):
    """A table that is only ever read here."""

    actions: tuple[str, ...] | None = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class _Refusable(Form):
    """Puts a refusal on the fields that it names, else above the form."""

    why: SchedulingError | None = None

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.why is not None:
            named = {name: text for name, text in self.why.fields.items() if name in self.fields}
            for name, text in named.items():
                self.add_error(name, text)
            if not named:
                self.add_error(None, f"{self.why.cause} {self.why.next_step}")
        return cleaned


def actor(request: HttpRequest) -> Actor:
    """Who acts in the admin."""
    if not isinstance(request.user, User):
        raise Http404
    return person(request.user)


now = clock.now
