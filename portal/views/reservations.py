"""Reservations: when can I have these cards for certain; book, change, give back."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import escape
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from nodes import clock
from nodes.models import Gpu
from portal import access, agenda, floor, zones
from portal.agenda import Window
from portal.booking_form import BookingForm, blank
from portal.htmx import page, roles_of
from portal.words import count
from scheduling import calendar, queries, slot_choice
from scheduling.actors import person
from scheduling.booking_orders import Change
from scheduling.booking_rules import utc
from scheduling.errors import SchedulingError
from scheduling.models import Reservation, Team
from scheduling.services import reservations as services

from .acts import signed_in

ZOOMS = tuple(agenda.DAYS)
SHOWN = 50


@require_http_methods(["GET", "HEAD", "POST"])
def reservation_list(request: HttpRequest) -> HttpResponse:
    """The calendar with the form; POST books, and shows the calendar again with the refusal."""
    zone, now = zones.zone_of(request), clock.now()
    if request.method == "POST":
        form = BookingForm(request.POST.dict(), zone)
        row = _booked(request, form, now)
        if row is not None:
            messages.success(request, f"Reservation {row.pk} is booked.")
            return redirect("reservation", row.pk)
        return page(request, "reservations/list", _context(request, form, now), status=422)
    teams = _teams(request)
    form = blank(zone, now, teams[0] if teams else "", request.GET.dict())
    return page(request, "reservations/list", _context(request, form, now))


@require_safe
def reservation_check(request: HttpRequest) -> HttpResponse:
    """One sentence on a slot that is being drawn: is it free, and if not, what is in the way."""
    form = BookingForm(request.GET.dict(), zones.zone_of(request))
    now = clock.now()
    try:
        order = form.order()
        row, cards = services.candidates(order, user_id=roles_of(request).user_id, at=now)
        slot_choice.look(row, cards, now)
    except SchedulingError as why:
        return HttpResponse(f'<b class="bad">{escape(why.cause)}</b> {escape(why.next_step)}')
    slot = f"{zones.to_wall(row.start_at, form.zone)} to {zones.to_wall(row.end_at, form.zone)}"
    text = f"{count(row.gpus, 'GPU')}, {slot.replace('T', ' ')}: free."
    return HttpResponse(f'<b class="good">{escape(text)}</b> Press Book to have it.')


@require_http_methods(["GET", "HEAD", "POST"])
def reservation_detail(request: HttpRequest, reservation_id: int) -> HttpResponse:
    """One reservation; POST changes it."""
    row = calendar.reservation(roles_of(request).viewer, reservation_id)
    zone, now = zones.zone_of(request), clock.now()
    values = {
        "title": row.title,
        "gpus": str(row.gpus),
        "start": zones.to_wall(row.start_at, zone),
        "end": zones.to_wall(row.end_at, zone),
    }
    form = BookingForm(values, zone)
    status = 200
    if request.method == "POST":
        access.require_change(request.user, row)
        form.values |= request.POST.dict()
        try:
            wish = form.change()
            services.change(person(signed_in(request)), row, _touched(row, wish), at=now)
        except SchedulingError as why:
            form.refuse(why)
            status = 422
        else:
            messages.success(request, f"Reservation {row.pk} is changed.")
            return redirect("reservation", row.pk)
    follows = calendar.extendable_until([row]).get(row.pk)
    longer = row.end_at + timedelta(hours=1)
    context = {
        "row": row,
        "form": form,
        "follows": follows,
        "longer": zones.to_wall(min(longer, follows or longer), zone),
        "zone": zones.named(zone, now),
        "may": row.live and access.may_change(request.user, row),
        "begun": row.start_at <= now,
        "when": _when(row, zone),
        "cards": _by_node(row),
    }
    return page(request, "reservations/detail", context, status=status)


@require_POST
def reservation_end(request: HttpRequest, reservation_id: int) -> HttpResponse:
    """Cancel a reservation, or give back what is left of it."""
    row = calendar.reservation(roles_of(request).viewer, reservation_id)
    access.require_change(request.user, row)
    try:
        ended = services.cancel(person(signed_in(request)), row, at=clock.now())
    except SchedulingError as why:
        messages.error(request, f"{why.cause} {why.next_step}")
        return redirect("reservation", row.pk)
    messages.success(request, f"Reservation {row.pk} is {ended.state.replace('_', ' ')}.")
    return redirect("reservation-list")


def _booked(request: HttpRequest, form: BookingForm, now: datetime) -> Reservation | None:
    try:
        order = form.order()
        access.require_book(request.user, order.team, order.kind)
        return services.create(
            person(signed_in(request)), order, user_id=roles_of(request).user_id, at=now
        )
    except SchedulingError as why:
        form.refuse(why)
        return None


def _context(request: HttpRequest, form: BookingForm, now: datetime) -> dict[str, object]:
    window = _window(request, form, now)
    viewer = roles_of(request).viewer
    cards = _cards()
    opened = request.GET.get("node", "")
    lanes = agenda.lanes(cards, opened)
    blocks = calendar.blocks(window.start, window.end, [opened] if opened in cards else [])
    names = dict(Team.objects.values_list("pk", "name"))
    mine = viewer.team_ids
    own = frozenset(b.reservation for b in blocks if mine is None or b.team in mine)
    hues = floor.hues()
    ahead = now + timedelta(days=366)
    upcoming = calendar.reservations(viewer, now, ahead, mine=True, live=True, most=SHOWN)
    return {
        "form": form,
        "window": window,
        "zooms": [(zoom, zoom.title()) for zoom in ZOOMS],
        "lanes": lanes,
        "blocks": agenda.bars(window, lanes, blocks, hues, names, own),
        "height": (lanes[-1].y + lanes[-1].height if lanes else agenda.TOP) + 6,
        "now_x": window.x(now) if window.start <= now < window.end else None,
        "legend": sorted({(names.get(b.team, ""), hues.get(b.team, 0)) for b in blocks if b.team}),
        "opened": opened if opened in cards else "",
        "zone": zones.named(form.zone, now),
        "zone_key": form.zone.key,
        "teams": _teams(request),
        "models": sorted(set(Gpu.objects.filter(present=True).values_list("model", flat=True))),
        "mine": [(row, _when(row, form.zone)) for row in upcoming],
        "sentence": _sentence(upcoming, now),
        "shown": _shown_days(window),
        "earlier": window.moved(-1),
        "later": window.moved(1),
        "check": reverse("reservation-check"),
    }


def _window(request: HttpRequest, form: BookingForm, now: datetime) -> Window:
    zoom = request.GET.get("zoom", "day")
    today = now.astimezone(form.zone).date()
    try:
        day = date.fromisoformat(request.GET.get("day", ""))
    except ValueError:
        day = today
    near = timedelta(days=3660)
    if not today - near < day < today + near:
        day = today
    return Window(zoom if zoom in ZOOMS else "day", day, form.zone)


def _cards() -> dict[str, list[int]]:
    """The indexes of each node's cards, by name of the node. One query."""
    found: dict[str, list[int]] = {}
    gpus = Gpu.objects.filter(present=True, parent__isnull=True, node__pool_node__isnull=False)
    for name, index in gpus.order_by("node__name", "index").values_list("node__name", "index"):
        found.setdefault(name, []).append(index)
    return found


def _teams(request: HttpRequest) -> list[str]:
    roles = roles_of(request)
    return [t.name for t in queries.leaf_teams(roles.viewer) if roles.may_submit(t.pk)]


def _by_node(row: Reservation) -> list[tuple[str, str, str]]:
    """Each node's name with the numbers and the UUIDs of the cards there."""
    found: dict[str, list[tuple[int, str]]] = {}
    for one in row.cards.all():
        gpu = one.card.gpu
        found.setdefault(gpu.node.name, []).append((gpu.index, gpu.uuid))
    return [
        (node, ", ".join(str(i) for i, _ in cards), ",".join(uuid for _, uuid in cards))
        for node, cards in found.items()
    ]


def _when(row: Reservation, zone: ZoneInfo) -> str:
    start, end = row.start_at.astimezone(zone), row.end_at.astimezone(zone)
    till = f"{end:%H:%M}" if start.date() == end.date() else f"{end:%a %-d %b, %H:%M}"
    return f"{start:%a %-d %b, %H:%M}–{till}"


def _sentence(rows: list[Reservation], now: datetime) -> tuple[str, str]:
    running = [row for row in rows if row.start_at <= now]
    if running:
        return f"{count(sum(r.gpus for r in running), 'GPU')} are yours now", "."
    if rows:
        return "Your next slot", f" begins {utc(rows[0].start_at)}."
    return "Nothing of yours is booked", "."


def _shown_days(window: Window) -> str:
    last = window.end - timedelta(days=1)
    if window.zoom == "day":
        return f"{window.day:%a %-d %B %Y}"
    return f"{window.day:%-d %b} – {last:%-d %b %Y}"


def _touched(row: Reservation, wish: Change) -> Change:
    """What the form shows to the minute and nobody changed stays as exact as it is."""
    same_start = wish.start is not None and _minute(wish.start) == _minute(row.start_at)
    same_end = wish.end is not None and _minute(wish.end) == _minute(row.end_at)
    return replace(
        wish,
        start=None if same_start else wish.start,
        end=row.end_at if same_end else wish.end,
    )


def _minute(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(second=0, microsecond=0)
