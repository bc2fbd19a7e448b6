"""What a person does to a job on its page: cancel, hold, release. Each is a POST and a way back.

What is refused is told on the job's page with its cause and the next step.
"""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from nodes import clock
from portal import access, words
from portal.htmx import page, roles_of
from scheduling import queries
from scheduling.actors import person
from scheduling.errors import SchedulingError
from scheduling.models import Job
from scheduling.services import jobs
from scheduling.states import WAITING

Act = Callable[..., Job]
DONE_WORDS = {
    "hold": "Held. It keeps its place and starts only after a release.",
    "release": "Released. It waits for its turn again, in its old place.",
}


@require_http_methods(["GET", "HEAD", "POST"])
def job_cancel(request: HttpRequest, job_id: int) -> HttpResponse:
    """GET asks, saying what is lost (for the dialog without the page around it); POST does."""
    job = queries.job(roles_of(request).viewer, job_id)
    if request.method == "POST":
        return _act(request, job, "cancel", jobs.cancel)
    access.require_act(request.user, job)
    name = "jobs/_cancel" if request.headers.get("HX-Request") else "jobs/cancel"
    return page(request, name, {"job": job, "loss": words.loss(job, clock.now())})


@require_POST
def job_hold(request: HttpRequest, job_id: int) -> HttpResponse:
    job = queries.job(roles_of(request).viewer, job_id)
    return _act(request, job, "hold", jobs.hold)


@require_POST
def job_release(request: HttpRequest, job_id: int) -> HttpResponse:
    job = queries.job(roles_of(request).viewer, job_id)
    return _act(request, job, "release", jobs.release)


def _act(request: HttpRequest, job: Job, verb: str, act: Act) -> HttpResponse:
    access.require_act(request.user, job)
    try:
        act(person(signed_in(request)), job, at=clock.now(), reason=_reason(request))
    except SchedulingError as why:
        messages.error(request, f"{why.cause} {why.next_step}")
    else:
        messages.success(request, DONE_WORDS.get(verb) or _cancelled(job))
    return redirect("job-detail", job.pk)


def _cancelled(job: Job) -> str:
    """True now and when the page has moved on: ``job`` is as it was before."""
    if job.state in WAITING:
        return "You cancelled it before it started."
    return f"You cancelled it; its processes get up to {words.duration(job.grace_s)} to save."


def signed_in(request: HttpRequest) -> User:
    """The user of a request that the sign-in middleware let through."""
    if not isinstance(request.user, User):
        raise TypeError("an act came past the sign-in middleware without a user")
    return request.user


def _reason(request: HttpRequest) -> str:
    return " ".join(request.POST.get("reason", "").replace("\0", "").split())[:500]
