"""Teams, members, quotas, people. Leads change these in their subtree, with two exceptions.

A team's own share is dealt out from above: a lead sets quotas of the teams below the topmost
one they lead. The Unix account of a member decides whose files a job may touch: operators' alone.
"""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.auth.forms import SetPasswordMixin
from django.contrib.auth.models import User
from django.http import HttpRequest

from portal.access import Roles
from portal.htmx import roles_of
from scheduling.actors import Actor
from scheduling.models import Member, Quota, Team
from scheduling.services import quotas, teams

from .scope import Scoped, actor, now
from .site import site


@admin.register(Team, site=site)
class TeamAdmin(Scoped):
    """The tree. There is no removing a team: its jobs are kept."""

    lead_writes = True
    list_display = ("name", "title", "parent")
    search_fields = ("name", "title")
    fields = ("name", "title", "parent")
    list_select_related = ("parent",)

    def store(self, actor: Actor, row: Team) -> None:
        teams.save_team(actor, row, at=now())

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """A lead's new team hangs below one they lead: a team at the top is an operator's."""
        made = super().formfield_for_foreignkey(db_field, request, **kwargs)
        if made is not None and not roles_of(request).operator:
            made.required = True
        return made

    def get_readonly_fields(self, request: HttpRequest, obj: Team | None = None) -> tuple[str, ...]:
        """Where a lead's own topmost team hangs, and its name, is decided above."""
        roles = roles_of(request)
        if obj is None or roles.operator or obj.pk not in roles.leads:
            return ()
        return ("name", "parent")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Member, site=site)
class MemberAdmin(Scoped):
    """Who is in which team, and who leads it."""

    lead_writes = True
    list_display = ("user", "team", "role", "unix_user")
    list_filter = (("team", admin.RelatedOnlyFieldListFilter), "role")
    search_fields = ("user__username", "team__name")
    fields = ("team", "user", "role", "unix_user")
    autocomplete_fields = ("team", "user")
    list_select_related = ("user", "team")

    def store(self, actor: Actor, row: Member) -> None:
        teams.save_member(actor, row, at=now())

    def remove(self, actor: Actor, row: Member) -> None:
        teams.remove_member(actor, row, at=now())

    def get_readonly_fields(
        self, request: HttpRequest, obj: Member | None = None
    ) -> tuple[str, ...]:
        """The account stays with the person it was given to."""
        if roles_of(request).operator:
            return ()
        return ("unix_user",) if obj is None else ("user", "unix_user")


@admin.register(Quota, site=site)
class QuotaAdmin(Scoped):
    """What a team may hold. 1000 milli-GPU are one card; no borrowing limit: all that is left."""

    lead_writes = True
    list_display = ("team", "of_model", "nominal", "borrowing", "lending", "weight")
    list_filter = (("team", admin.RelatedOnlyFieldListFilter),)
    fields = (
        "team",
        "gpu_model",
        "nominal_milli",
        "borrowing_limit_milli",
        "lending_limit_milli",
        "weight",
        "user_milli",
        "cpus",
        "memory_mib",
        "gpu_hours_a_month",
        "budget_is_hard",
    )
    autocomplete_fields = ("team",)
    list_select_related = ("team",)

    @admin.display(description="GPU model")
    def of_model(self, row: Quota) -> str:
        return row.gpu_model or "all together"

    @admin.display(description="its own, GPUs")
    def nominal(self, row: Quota) -> str:
        return f"{row.nominal_milli / 1000:g}"

    @admin.display(description="may borrow, GPUs")
    def borrowing(self, row: Quota) -> str:
        limit = row.borrowing_limit_milli
        return "no limit" if limit is None else f"{limit / 1000:g}"

    @admin.display(description="lends, GPUs")
    def lending(self, row: Quota) -> str:
        limit = row.lending_limit_milli
        return "all unused" if limit is None else f"{limit / 1000:g}"

    def writable(self, roles: Roles, row: Quota) -> bool:
        return row.team_id in roles.below

    def has_add_permission(self, request: HttpRequest) -> bool:
        roles = roles_of(request)
        return roles.operator or bool(roles.below)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        roles = roles_of(request)
        if db_field.name == "team" and not roles.operator:
            kwargs["queryset"] = Team.objects.filter(pk__in=roles.below)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def store(self, actor: Actor, row: Quota) -> None:
        quotas.save_quota(actor, row, at=now())

    def remove(self, actor: Actor, row: Quota) -> None:
        quotas.remove_quota(actor, row, at=now())


if TYPE_CHECKING:
    Passwords = SetPasswordMixin[User]
    UserForm = forms.ModelForm[User]
else:
    Passwords = SetPasswordMixin
    UserForm = forms.ModelForm


class PersonForm(Passwords, UserForm):
    """A name and a new password, typed twice and held against the validators."""

    password1, password2 = SetPasswordMixin.create_password_fields()

    class Meta:
        model = User
        fields = ("username",)

    def clean(self) -> dict[str, Any] | None:
        self.validate_passwords("password1", "password2")
        self.validate_password_for_user(self.instance, "password2")
        return super().clean()


@admin.register(User, site=site)
class UserAdmin(Scoped):
    """People: operators make them and give new passwords; leads find them here for their teams."""

    form = PersonForm
    list_display = ("username", "teams", "is_active", "last_login")
    search_fields = ("username", "first_name", "last_name")
    fields = ("username", "password1", "password2")
    ordering = ("username",)
    actions = None

    @admin.display(description="teams")
    def teams(self, row: User) -> str:
        return ", ".join(sorted(member.team.name for member in row.memberships.all()))

    def get_queryset(self, request: HttpRequest) -> Any:
        """A lead learns of nobody which other teams they are in."""
        return super().get_queryset(request).prefetch_related("memberships__team")

    def get_list_display(self, request: HttpRequest) -> Any:
        roles = roles_of(request)
        return self.list_display if roles.operator or roles.auditor else ("username",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if roles_of(request).operator else ("username",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("username",)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        password = form.cleaned_data["password1"]
        made = teams.make_user(actor(request), obj.username, password, at=now())
        obj.pk = made.pk

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
