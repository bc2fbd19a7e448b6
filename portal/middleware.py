"""What holds for every answer: where it may load from, who must sign in, how a refusal looks.

Order in settings: ContentPolicy first, NoNul before sessions, SignInRequired after
authentication, Refusals last.
"""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from nodes.errors import NodeError
from scheduling.errors import SchedulingError

from .views.errors import refusal

Next = Callable[[HttpRequest], HttpResponse]

POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; img-src 'self' data:"
)


class ContentPolicy:
    """Nothing from elsewhere and nothing inline: what a stored string says is never run."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


class NoNul:
    """Refuses an address with a NUL byte, which the database takes nowhere.

    A cookie with one is none of ours. The API names the parameter itself, forms name the field.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.COOKIES = {k: v for k, v in request.COOKIES.items() if "\0" not in v}
        if "%00" in request.META.get("QUERY_STRING", "") and not request.path.startswith("/api/"):
            raise BadRequest("The address contains a NUL byte.")
        return self.get_response(request)


class SignInRequired(LoginRequiredMiddleware):
    """Every page wants a session; a part whose session is gone reloads the page around it."""

    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., HttpResponseBase],
        view_args: tuple[Any, ...],
        view_kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        answer = super().process_view(request, view_func, view_args, view_kwargs)
        if answer is not None and request.headers.get("HX-Request"):
            return HttpResponse(status=401, headers={"HX-Refresh": "true"})
        return answer


class Refusals:
    """A refusal that a view let through becomes a page with its cause and its next step."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, SchedulingError):
            return refusal(request, error.cause, error.next_step, status=error.status)
        if isinstance(error, NodeError):
            return refusal(request, error.cause, error.next_step, status=503)
        return None
