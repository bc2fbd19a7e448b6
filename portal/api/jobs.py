"""Jobs: list, submit, show, cancel, hold, release, attempts."""

from collections.abc import Callable

from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from nodes import clock
from portal import access
from scheduling import actors, orders, queries
from scheduling.errors import NotAllowed, NotFound
from scheduling.models import Job
from scheduling.services import jobs as services

from . import asked, shapes_jobs, shapes_orders
from .answers import rendered, tagged
from .auth import person_of, viewer_of
from .endpoint import Endpoint, problems
from .idempotency import Post, idempotent

PAGE, PAGE_MAX = 50, 200
KEY = OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER)


class Jobs(Endpoint):
    """The reader's jobs, and new ones."""

    @extend_schema(
        operation_id="list_jobs",
        parameters=[
            OpenApiParameter("state", str, many=True, description="Or active: not ended."),
            OpenApiParameter("team", str),
            OpenApiParameter("mine", bool),
            OpenApiParameter("cursor", str, description="next_cursor of the page before."),
            OpenApiParameter("limit", int, description=f"1 to {PAGE_MAX}; {PAGE} by default."),
        ],
        responses={200: shapes_jobs.JobsSerializer, **problems(400)},
    )
    def get(self, request: Request) -> HttpResponseBase:
        asked.only(request, "state", "team", "mine", "cursor", "limit")
        limit = min(asked.number(request, "limit", PAGE, least=1) or PAGE, PAGE_MAX)
        found = queries.jobs(
            viewer_of(request),
            states=asked.states(request),
            team=asked.text(request.query_params.get("team"), "team", most=63, default=""),
            mine=asked.flag(request, "mine"),
            before_id=asked.number(request, "cursor", None),
            limit=limit + 1,
        )
        page, more = found[:limit], len(found) > limit
        cursor = str(page[-1].pk) if more else None
        shape = shapes_jobs.JobsSerializer({"results": page, "next_cursor": cursor})
        return tagged(request, shape.data)

    @extend_schema(
        operation_id="submit_job",
        parameters=[KEY],
        request=shapes_orders.JobOrderSerializer,
        responses={201: shapes_jobs.JobSerializer, **problems(400, 403, 404, 409, 413, 415, 422)},
    )
    @idempotent
    def post(self, request: Request) -> HttpResponse:
        user = person_of(request)
        order = orders.parse(asked.body(request))
        require_submit(request, order.team)
        job = services.submit(actors.person(user), order, user_id=user.pk, at=clock.now())
        response = _shown(request, job.pk, status=201)
        response["Location"] = f"/api/v1/jobs/{job.pk}"
        return response


class OneJob(Endpoint):
    """One job."""

    @extend_schema(
        operation_id="get_job",
        responses={200: shapes_jobs.JobSerializer, **problems(404)},
    )
    def get(self, request: Request, job_id: int) -> HttpResponseBase:
        return tagged(request, shapes_jobs.JobSerializer(found(request, job_id)).data)


class JobAttempts(Endpoint):
    """The runs of one job."""

    @extend_schema(
        operation_id="list_attempts",
        responses={200: shapes_jobs.AttemptsSerializer, **problems(404)},
    )
    def get(self, request: Request, job_id: int) -> HttpResponseBase:
        job = found(request, job_id)
        return tagged(request, shapes_jobs.AttemptsSerializer({"results": job.attempts}).data)


def _described(verb: str) -> Callable[[Post], Post]:
    described: Callable[[Post], Post] = extend_schema(
        operation_id=f"{verb}_job",
        parameters=[KEY],
        request=shapes_orders.ActSerializer,
        responses={200: shapes_jobs.JobSerializer, **problems(400, 403, 404, 409, 415, 422)},
    )
    return described


class Cancel(Endpoint):
    """End a job: at once while it waits, with its grace period while it has GPUs."""

    @_described("cancel")
    @idempotent
    def post(self, request: Request, job_id: int) -> HttpResponse:
        return _act(request, job_id, services.cancel)


class Hold(Endpoint):
    """Keep a waiting job from starting."""

    @_described("hold")
    @idempotent
    def post(self, request: Request, job_id: int) -> HttpResponse:
        return _act(request, job_id, services.hold)


class Release(Endpoint):
    """Let a held job wait for its turn again."""

    @_described("release")
    @idempotent
    def post(self, request: Request, job_id: int) -> HttpResponse:
        return _act(request, job_id, services.release)


def found(request: Request, job_id: int) -> Job:
    """The job, if the reader may see it. Raises NotFound for a foreign one too."""
    return queries.job(viewer_of(request), job_id)


def require_submit(request: Request, team_name: str) -> None:
    """Refuse a team that the person cannot submit for; one they do not see is not found."""
    team = queries.leaf_teams(viewer_of(request)).filter(name=team_name).first()
    if team is None:
        sentence = f"There is no team {team_name!r} that you can submit jobs for."
        raise NotFound(
            sentence, next_step="See your teams at /api/v1/teams.", fields={"team": sentence}
        )
    if not access.may_submit(request.user, team.pk):
        raise NotAllowed(
            f"You see team {team.name} and are not a member of it.",
            next_step="Ask a lead of the team to add you.",
        )


def _act(request: Request, job_id: int, service: Callable[..., Job]) -> HttpResponse:
    user, job = person_of(request), found(request, job_id)
    access.require_act(user, job)
    service(actors.person(user), job, at=clock.now(), reason=asked.reason(request))
    return _shown(request, job_id)


def _shown(request: Request, job_id: int, *, status: int = 200) -> HttpResponse:
    return rendered(shapes_jobs.JobSerializer(found(request, job_id)).data, status=status)
