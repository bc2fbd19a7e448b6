"""A calendar for other programs: iCalendar behind a secret address, one for each person.

The address opens what its owner may see and nothing else; a new one closes the old. Only its
digest is kept, so it is shown once. Format: RFC 5545, times in UTC.
"""

import hashlib
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from nodes import clock
from portal import access
from portal.models import CalendarKey
from scheduling import audit, calendar
from scheduling.actors import person
from scheduling.models import Reservation

from .acts import signed_in

BACK, AHEAD = timedelta(days=30), timedelta(days=366)
_ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n", "\r": ""})


@require_POST
@transaction.atomic
def feed_new(request: HttpRequest) -> HttpResponse:
    """Make a new secret address and show it, this once."""
    user, secret, now = signed_in(request), secrets.token_urlsafe(24), clock.now()
    CalendarKey.objects.update_or_create(
        user=user, defaults={"digest": _digest(secret), "made_at": now}
    )
    audit.note(person(user), "new calendar address", f"user {user.username}", at=now)
    address = settings.GANGWAY_URL.rstrip("/") + reverse("feed", args=[secret])
    messages.success(
        request,
        f"Subscribe to {address}. Keep it secret: who has it sees your teams' reservations. "
        "It is not shown again, and an older address opens nothing any more.",
    )
    return redirect("reservation-list")


@login_not_required
@require_safe
def feed(request: HttpRequest, secret: str) -> HttpResponse:
    """The reservations of the owner's teams as iCalendar, or 404."""
    key = CalendarKey.objects.select_related("user").filter(digest=_digest(secret)).first()
    if key is None or not key.user.is_active:
        raise Http404
    now = clock.now()
    rows = calendar.reservations(access.viewer(key.user), now - BACK, now + AHEAD)
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Gangway//Reservations//EN"]
    lines += ["X-WR-CALNAME:Gangway", "REFRESH-INTERVAL;VALUE=DURATION:PT15M"]
    for row in rows:
        if row.state != Reservation.State.CANCELLED:
            lines += _event(row, now)
    text = "".join(f"{part}\r\n" for line in [*lines, "END:VCALENDAR"] for part in _folded(line))
    response = HttpResponse(text, content_type="text/calendar; charset=utf-8")
    response["Cache-Control"] = "private, no-cache"
    response["Referrer-Policy"] = "no-referrer"
    return response


def _event(row: Reservation, now: datetime) -> Iterator[str]:
    team = row.team.name if row.team else "maintenance"
    what = f"{row.title} ({team})" if row.title else team
    nodes = ", ".join(sorted({one.card.gpu.node.name for one in row.cards.all()}))
    yield "BEGIN:VEVENT"
    yield f"UID:reservation-{row.pk}@{settings.GANGWAY_INSTANCE or 'gangway'}"
    yield f"DTSTAMP:{_utc(now)}"
    yield f"SEQUENCE:{row.version}"
    yield f"DTSTART:{_utc(row.start_at)}"
    yield f"DTEND:{_utc(row.end_at)}"
    yield f"SUMMARY:{f'{row.gpus} GPUs: {what}'.translate(_ESCAPES)}"
    yield f"LOCATION:{nodes.translate(_ESCAPES)}"
    yield f"URL:{settings.GANGWAY_URL.rstrip('/')}{reverse('reservation', args=[row.pk])}"
    yield "END:VEVENT"


def _folded(line: str) -> Iterator[str]:
    """Lines of at most 75 bytes; those that go on begin with a space."""
    raw, first = line.encode(), True
    while raw:
        most = 75 if first else 74
        cut = len(raw[:most].decode(errors="ignore").encode())
        yield ("" if first else " ") + raw[:cut].decode()
        raw, first = raw[cut:], False


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
