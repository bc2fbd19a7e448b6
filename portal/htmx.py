"""One partial, two doors: a page, or the live part of it alone with an ETag.

A page has at most one part that refreshes itself. Its template ``_name.html`` gives the inside;
the frame around it (id, hx-*, the ETag it will send back) is made here, so that page and part
cannot differ. Never put a CSRF token into a part: it would be new each time.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import patch_cache_control
from django.utils.http import parse_etags
from django.utils.safestring import SafeString

from scheduling import freezing

from . import access

PERIOD_S = 5
THEMES = ("light", "dark")


@dataclass(frozen=True, slots=True)
class Part:
    """The inside of a live part and the version of it."""

    inside: SafeString
    etag: str


def page(
    request: HttpRequest, name: str, context: dict[str, Any] | None = None, *, status: int = 200
) -> HttpResponse:
    """Render a whole page with what the frame needs (roles, theme). Two queries or three."""
    return render(request, f"{name}.html", frame(request) | (context or {}), status=status)


def page_or_part(
    request: HttpRequest, name: str, context: dict[str, Any], *, live: bool = True
) -> HttpResponse:
    """Render ``name.html`` around its part, or for ``?part=1`` the part alone.

    ``live=False`` leaves the hx-attributes out: a part that will not change asks no more. An
    unchanged part is answered 304, which pages do not swap.
    """
    context = frame(request) | context
    folder, _, leaf = name.rpartition("/")
    inside = render_to_string(f"{folder}/_{leaf}.html", context, request)
    context |= {
        "part": Part(inside, _etag(inside, live)),
        "live": live,
        "part_url": _part_url(request),
        "period_s": PERIOD_S,
    }
    if "part" not in request.GET:
        response = render(request, f"{name}.html", context)
        patch_cache_control(response, private=True, no_cache=True)
        return response
    return _part(request, context)


def frame(request: HttpRequest) -> dict[str, Any]:
    """What base.html wants; the roles are read once for a request."""
    theme = request.COOKIES.get("theme", "")
    return {
        "roles": roles_of(request),
        "theme": theme if theme in THEMES else "",
        "frozen": freezing.current(),
    }


def roles_of(request: HttpRequest) -> access.Roles:
    """The roles of who asks, read once for a request."""
    known: access.Roles | None = getattr(request, "gangway_roles", None)
    if known is None:
        known = access.roles(request.user)
        request.gangway_roles = known  # type: ignore[attr-defined]
    return known


def _part(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    etag = f'"{context["part"].etag}"'
    response: HttpResponse
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        response = HttpResponseNotModified()
    else:
        response = render(request, "part.html", context)
    response.headers["ETag"] = etag
    patch_cache_control(response, private=True, no_cache=True)
    return response


def _part_url(request: HttpRequest) -> str:
    wanted = request.GET.copy()
    wanted["part"] = "1"
    return f"{request.path}?{wanted.urlencode()}"


def _etag(inside: str, live: bool) -> str:
    return blake2b(f"{live}{inside}".encode(), digest_size=12).hexdigest()
