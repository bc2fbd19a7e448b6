"""The admin with the portal's own sign-in and roles instead of Django's staff flag."""

from django.contrib.admin import AdminSite
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.htmx import roles_of


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


site = GangwaySite(name="admin")
