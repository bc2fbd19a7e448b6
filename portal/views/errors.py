"""Refusals as pages: a fact, a next step, a way on. None of them asks the database."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

TITLES = {
    400: "That request cannot be read",
    403: "This is not yours to do",
    404: "There is nothing here",
    409: "That is not possible now",
    429: "Not so fast",
    503: "Not just now",
}


def refusal(request: HttpRequest, cause: str, next_step: str, *, status: int) -> HttpResponse:
    """A page that says what is the matter and what to do about it."""
    told = {
        "title": TITLES.get(status, TITLES[409]),
        "cause": cause,
        "next_step": next_step,
        "theme": request.COOKIES.get("theme", ""),
    }
    return render(request, "notice.html", told, status=status)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return refusal(
        request,
        "There is no such page, or it is not yours to see.",
        "Check the address, or start from the home page.",
        status=404,
    )


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    cause = str(exception) or "Your account may not open this page."
    return refusal(request, cause, "Ask a lead of your team or an operator.", status=403)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return refusal(
        request,
        "The request did not arrive in a form that can be read.",
        "Go back, reload the page and send it again.",
        status=400,
    )


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form's token is missing or old (CSRF): nothing was done."""
    return refusal(
        request,
        "The form was open too long, or did not come from this site. Nothing was done.",
        "Go back, reload the page and send it again.",
        status=403,
    )


def failed(request: HttpRequest) -> HttpResponse:
    """Our fault. Rendered without a context processor, so that it cannot fail in turn."""
    told = {
        "title": "Something went wrong here",
        "cause": "This page could not be made. Jobs that run are not affected.",
        "next_step": "Try again in a minute; if it stays, tell an operator the time.",
    }
    return HttpResponse(render_to_string("notice.html", told), status=500)
