"""Bookings: list, book, show, change, end, and when the next slot is free."""

from datetime import datetime, timedelta

from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from nodes import clock
from portal import access
from scheduling import actors, booking_orders, calendar, slot_choice
from scheduling.models import Reservation
from scheduling.services import reservations as services

from . import asked, shapes_reservations
from .answers import rendered, tagged
from .auth import person_of, viewer_of
from .endpoint import Endpoint, problems
from .idempotency import idempotent
from .jobs import KEY

WINDOW = timedelta(days=14)
WINDOW_MOST = timedelta(days=366)
_ASKS = ("gpus", "nodes", "gpu_model", "gpu_memory_gib", "on", "team", "start", "duration")


class Reservations(Endpoint):
    """The reader's bookings of a window with everybody's busy blocks, and new ones."""

    @extend_schema(
        operation_id="list_reservations",
        parameters=[
            OpenApiParameter("since", str, description="ISO 8601 with its zone; now by default."),
            OpenApiParameter("until", str, description="14 days after since by default."),
            OpenApiParameter("mine", bool),
        ],
        responses={200: shapes_reservations.ReservationsSerializer, **problems(400)},
    )
    def get(self, request: Request) -> HttpResponseBase:
        asked.only(request, "since", "until", "mine")
        since = _moment(request, "since") or clock.now()
        until = _moment(request, "until") or since + WINDOW
        if not since < until <= since + WINDOW_MOST:
            raise asked.refused("until", "until lies after since, by 366 days at most.")
        mine = asked.flag(request, "mine")
        rows = calendar.reservations(viewer_of(request), since, until, mine=mine)
        busy = [block for block in calendar.blocks(since, until) if block.live]
        shape = shapes_reservations.ReservationsSerializer(
            {"results": rows, "busy": busy}, context={"follows": calendar.extendable_until(rows)}
        )
        return tagged(request, shape.data)

    @extend_schema(
        operation_id="book",
        parameters=[KEY],
        request=shapes_reservations.ReservationOrderSerializer,
        responses={
            201: shapes_reservations.ReservationSerializer,
            **problems(400, 403, 409, 413, 415, 422),
        },
    )
    @idempotent
    def post(self, request: Request) -> HttpResponse:
        user = person_of(request)
        order = booking_orders.parse(asked.body(request))
        access.require_book(user, order.team, order.kind)
        row = services.create(actors.person(user), order, user_id=user.pk, at=clock.now())
        response = _shown(request, row.pk, status=201)
        response["Location"] = f"/api/v1/reservations/{row.pk}"
        return response


class OneReservation(Endpoint):
    """One booking of the reader's teams."""

    http_method_names = ["get", "head", "patch", "delete"]

    @extend_schema(
        operation_id="get_reservation",
        responses={200: shapes_reservations.ReservationSerializer, **problems(404)},
    )
    def get(self, request: Request, reservation_id: int) -> HttpResponseBase:
        return tagged(request, _data(calendar.reservation(viewer_of(request), reservation_id)))

    @extend_schema(
        operation_id="change_reservation",
        request=shapes_reservations.ReservationChangeSerializer,
        responses={
            200: shapes_reservations.ReservationSerializer,
            **problems(400, 403, 404, 409, 413, 415),
        },
    )
    def patch(self, request: Request, reservation_id: int) -> HttpResponse:
        row = self._own(request, reservation_id)
        wish = booking_orders.parse_change(asked.body(request))
        services.change(actors.person(person_of(request)), row, wish, at=clock.now())
        return _shown(request, reservation_id)

    @extend_schema(
        operation_id="end_reservation",
        responses={200: shapes_reservations.ReservationSerializer, **problems(403, 404, 409)},
    )
    def delete(self, request: Request, reservation_id: int) -> HttpResponse:
        row = self._own(request, reservation_id)
        services.cancel(actors.person(person_of(request)), row, at=clock.now())
        return _shown(request, reservation_id)

    def _own(self, request: Request, reservation_id: int) -> Reservation:
        row = calendar.reservation(viewer_of(request), reservation_id)
        access.require_change(person_of(request), row)
        return row


class NextFree(Endpoint):
    """When a booking would be taken, without booking it."""

    @extend_schema(
        operation_id="next_free",
        parameters=[OpenApiParameter(name, str) for name in _ASKS],
        responses={
            200: shapes_reservations.NextFreeSerializer,
            **problems(400, 403, 409),
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        asked.only(request, *_ASKS)
        user, now = person_of(request), clock.now()
        sent = dict(request.query_params.items())
        usual = {"gpus": None if "on" in sent else "1", "duration": "1h"}
        order = booking_orders.parse(usual | sent, for_team=False)
        if order.team:
            access.require_book(user, order.team, "use")
        row, cards = services.candidates(order, user_id=user.pk, at=now)
        start = slot_choice.next_free(row, cards, row.start_at, now)
        end = start + (row.end_at - row.start_at) if start else None
        answer = {"start": start, "end": end, "gpus": row.gpus}
        return tagged(request, shapes_reservations.NextFreeSerializer(answer).data)


def _moment(request: Request, name: str) -> datetime | None:
    text = request.query_params.get(name, "")
    try:
        # A plus sign that was not escaped arrives as a space.
        return booking_orders.moment(text.replace(" ", "+")) if text else None
    except ValueError as why:
        raise asked.refused(name, str(why)) from None


def _data(row: Reservation) -> object:
    follows = calendar.extendable_until([row])
    return shapes_reservations.ReservationSerializer(row, context={"follows": follows}).data


def _shown(request: Request, pk: int, *, status: int = 200) -> HttpResponse:
    return rendered(_data(calendar.reservation(viewer_of(request), pk)), status=status)
