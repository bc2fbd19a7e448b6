"""Quotas, loans between teams, and what was used. Quotas themselves are set at /admin/."""

from datetime import UTC, date, datetime
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from nodes import clock
from portal import access
from scheduling import actors, queries, shares
from scheduling.errors import NotAllowed, NotFound
from scheduling.models import Loan, Team
from scheduling.services import loans

from . import asked, shapes_quotas
from .answers import rendered, tagged
from .auth import person_of, viewer_of
from .endpoint import Endpoint, problems
from .idempotency import idempotent

PAGE, PAGE_MAX = 50, 200
KEY = OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER)
FIELDS = ("lender", "borrower", "gpus", "gpu_model", "from_at", "until_at", "reason")
GPUS_MOST = 1_000_000


class Quotas(Endpoint):
    """What the reader's teams may hold, hold and borrow."""

    @extend_schema(
        operation_id="list_quotas",
        responses={200: shapes_quotas.QuotasSerializer, **problems(400)},
    )
    def get(self, request: Request) -> HttpResponseBase:
        asked.only(request)
        found = shares.quotas(viewer_of(request), clock.now())
        return tagged(request, shapes_quotas.QuotasSerializer({"results": found}).data)


class Loans(Endpoint):
    """What the reader's teams lent or borrowed, and new loans."""

    @extend_schema(
        operation_id="list_loans", responses={200: shapes_quotas.LoansSerializer, **problems(400)}
    )
    def get(self, request: Request) -> HttpResponseBase:
        asked.only(request)
        found = shares.loans(viewer_of(request))
        return tagged(request, shapes_quotas.LoansSerializer({"results": found}).data)

    @extend_schema(
        operation_id="make_loan",
        parameters=[KEY],
        request=shapes_quotas.LoanOrderSerializer,
        responses={
            201: shapes_quotas.LoanSerializer,
            **problems(400, 403, 404, 409, 413, 415, 422),
        },
    )
    @idempotent
    def post(self, request: Request) -> HttpResponse:
        user, sent, now = person_of(request), asked.body(request, *FIELDS), clock.now()
        lender = _lender(request, asked.text(sent.get("lender"), "lender", most=63))
        loan = Loan(
            lender=lender,
            borrower=_borrower(asked.text(sent.get("borrower"), "borrower", most=63)),
            milli=_gpus(sent.get("gpus")) * 1000,
            gpu_model=asked.text(sent.get("gpu_model"), "gpu_model", most=96, default=""),
            from_at=_moment(sent.get("from_at"), "from_at", now),
            until_at=_moment(sent.get("until_at"), "until_at"),
            reason=asked.text(sent.get("reason"), "reason", most=asked.REASON_MAX, default=""),
        )
        made = loans.make(actors.person(user), loan, at=now)
        return rendered(shapes_quotas.LoanSerializer(made).data, status=201)


class EndLoan(Endpoint):
    """Give back before its time."""

    @extend_schema(
        operation_id="end_loan",
        parameters=[KEY],
        responses={200: shapes_quotas.LoanSerializer, **problems(400, 403, 404, 409, 415, 422)},
    )
    @idempotent
    def post(self, request: Request, loan_id: int) -> HttpResponse:
        user, loan = person_of(request), shares.loan(viewer_of(request), loan_id)
        now = clock.now()
        _require_end(request, loan, now)
        ended = loans.end(actors.person(user), loan, at=now, reason=asked.reason(request))
        return rendered(shapes_quotas.LoanSerializer(ended).data)


class Usage(Endpoint):
    """What the reader's teams used in a month."""

    @extend_schema(
        operation_id="list_usage",
        parameters=[
            OpenApiParameter("month", str, description="Such as 2026-12; this month by default."),
            OpenApiParameter("team", str),
            OpenApiParameter("cursor", str, description="next_cursor of the page before."),
            OpenApiParameter("limit", int, description=f"1 to {PAGE_MAX}; {PAGE} by default."),
        ],
        responses={200: shapes_quotas.UsageSerializer, **problems(400)},
    )
    def get(self, request: Request) -> HttpResponseBase:
        asked.only(request, "month", "team", "cursor", "limit")
        viewer, month = viewer_of(request), _month(request)
        team = asked.text(request.query_params.get("team"), "team", most=63, default="")
        limit = min(asked.number(request, "limit", PAGE, least=1) or PAGE, PAGE_MAX)
        before_id = asked.number(request, "cursor", None)
        found = shares.entries(viewer, month=month, team=team, before_id=before_id, limit=limit + 1)
        page = found[:limit]
        told: dict[str, Any] = {
            "month": f"{month:%Y-%m}",
            "sums": shares.used(viewer, month=month, team=team),
            "results": page,
            "next_cursor": str(page[-1].pk) if len(found) > limit else None,
        }
        return tagged(request, shapes_quotas.UsageSerializer(told).data)


def _lender(request: Request, name: str) -> Team:
    team = queries.leaf_teams(viewer_of(request)).filter(name=name).first()
    if team is None:
        sentence = f"There is no team {name!r} whose quota you could lend."
        raise NotFound(sentence, next_step="See /api/v1/teams.", fields={"lender": sentence})
    if not access.is_operator(request.user) and team.pk not in access.led_team_ids(request.user):
        raise NotAllowed(
            f"You see team {team.name} and do not lead it.",
            next_step="Ask one of its leads to lend.",
        )
    return team


def _borrower(name: str) -> Team:
    team = Team.objects.filter(name=name).first()
    if team is None:
        raise asked.refused("borrower", f"There is no team {name!r} to lend to.")
    return team


def _require_end(request: Request, loan: Loan, now: datetime) -> None:
    """The borrower gives back at any time; the lender has promised, once it has begun."""
    if access.is_operator(request.user):
        return
    led = access.led_team_ids(request.user)
    if loan.borrower_id in led or (loan.lender_id in led and now < loan.from_at):
        return
    raise NotAllowed(
        f"Loan {loan.pk} runs until {loan.until_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC.",
        next_step=f"A lead of {loan.borrower.name} or an operator can give it back sooner.",
    )


def _gpus(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= GPUS_MOST:
        raise asked.refused("gpus", "gpus is a whole number, 1 or more.")
    return value


def _moment(value: Any, name: str, default: datetime | None = None) -> datetime:
    if value is None and default is not None:
        return default
    try:
        moment = parse_datetime(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not 2000 < moment.year < 9000:
        raise asked.refused(name, f"{name} is a time with a zone, such as 2026-12-04T18:00:00Z.")
    return moment


def _month(request: Request) -> date:
    text = request.query_params.get("month", "")
    if not text:
        now = clock.now()
        return date(now.year, now.month, 1)
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        raise asked.refused("month", "month is a year and a month, such as 2026-12.") from None
