"""Why a job waits and what would help; what an order would meet. Nothing is written here."""

from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from nodes import clock
from scheduling import advice, explaining, orders
from scheduling.models import Job

from . import asked, shapes_explain, shapes_jobs, shapes_orders
from .answers import rendered, tagged
from .auth import person_of
from .endpoint import Endpoint, problems
from .jobs import found, require_submit


class JobReasons(Endpoint):
    """Why one job is where it is, who is ahead, and what would start it now."""

    @extend_schema(
        operation_id="explain_job",
        responses={200: shapes_explain.AskedSerializer, **problems(404)},
    )
    def get(self, request: Request, job_id: int) -> HttpResponseBase:
        job = found(request, job_id)
        told = shapes_explain.answer(explaining.of(job, now=clock.now()))
        known = shapes_jobs.ExplainSerializer(job).data
        ahead = shapes_explain.AheadSerializer(told["ahead"]).data
        ways = shapes_explain.WaySerializer(told["ways"], many=True).data
        more = {"starts_now": told["starts_now"], "ahead": ahead, "ways": ways}
        return tagged(request, {**known, **more})


class Preview(Endpoint):
    """A dry run of an order. It writes nothing, so it needs no Idempotency-Key."""

    @extend_schema(
        operation_id="preview_job",
        request=shapes_orders.JobOrderSerializer,
        responses={200: shapes_explain.PreviewSerializer, **problems(400, 403, 404, 413, 415)},
    )
    def post(self, request: Request) -> HttpResponse:
        user = person_of(request)
        order = orders.parse(asked.body(request))
        require_submit(request, order.team)
        job, told = explaining.preview(order, user_id=user.pk, now=clock.now())
        shape = shapes_explain.PreviewSerializer(
            {
                **shapes_explain.answer(told),
                "fits": told.start.unsure != "never",
                "nodes": [{"node": node, "gpus": gpus} for node, gpus in told.nodes],
                "cost": _cost(job),
                "advice": advice.of(job),
            }
        )
        return rendered(shape.data)


def _cost(job: Job) -> dict[str, float]:
    hours = round(job.gpus * job.time_limit_s / 3600, 3)
    return {"gpus": job.gpus, "time_limit_s": job.time_limit_s, "gpu_hours": hours}
