"""The admin with the portal's own sign-in and roles instead of Django's staff flag."""

from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.htmx import roles_of

THEMES = {
    "People": ("Team", "Member", "Quota", "Loan", "User"),
    "Rules": ("Pool", "PriorityClass", "BookingRule"),
    "Machines": ("Node",),
    "Records": ("AuditEntry", "JobLog"),
}
NAMES = {
    "User": "People",
    "PriorityClass": "Priority classes",
    "BookingRule": "Booking rules",
    "AuditEntry": "What was done",
    "JobLog": "Events of jobs",
}


class GangwaySite(AdminSite):
    """Open to operators, auditors and whoever leads a team."""

    site_header = "Gangway"
    site_title = "Gangway"
    index_title = "Teams and rules"
    site_url = "/"
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        return roles_of(request).manages

    def login(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        if request.user.is_authenticated:
            raise PermissionDenied("These pages are for team leads and operators.")
        return redirect_to_login(request.GET.get("next", reverse("admin:index")))

    def get_app_list(
        self, request: HttpRequest, app_label: str | None = None
    ) -> list[dict[str, Any]]:
        """The tables by theme instead of by Django app."""
        tables = {
            table["object_name"]: table | {"name": NAMES.get(table["object_name"], table["name"])}
            for app in super().get_app_list(request, app_label)
            for table in app["models"]
        }
        groups = [
            {
                "name": theme,
                "app_label": theme.lower(),
                "app_url": reverse("admin:index"),
                "has_module_perms": True,
                "models": [tables[name] for name in names if name in tables],
            }
            for theme, names in THEMES.items()
        ]
        return [group for group in groups if group["models"]]


site = GangwaySite(name="admin")
