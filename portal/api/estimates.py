"""How much memory a training run would take. Sums alone: nothing is read or written."""

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from scheduling.estimate.answer import estimate
from scheduling.estimate.ask import parse

from . import asked, shapes_estimates
from .answers import rendered
from .endpoint import Endpoint, problems


class Estimates(Endpoint):
    """Weights, gradients, optimizer states and activations; it needs no Idempotency-Key."""

    @extend_schema(
        operation_id="estimate",
        request=shapes_estimates.AskSerializer,
        responses={200: shapes_estimates.EstimateSerializer, **problems(400, 413, 415)},
    )
    def post(self, request: Request) -> HttpResponse:
        found = estimate(parse(asked.body(request)))
        return rendered(shapes_estimates.EstimateSerializer(shapes_estimates.told(found)).data)
