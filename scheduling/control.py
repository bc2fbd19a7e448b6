"""The control lease: one cycle at a time, on whichever worker; its token fences every commit."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Q

from nodes import clock

from .models import ControlLease

LEASE_S = 8


@dataclass(slots=True)
class Fence:
    """A held lease. ``renew`` both extends it and proves, in its transaction, that it is ours."""

    token: int
    last_began_at: datetime | None
    last_took_ms: int

    def renew(self) -> bool:
        """Extend the lease; False when it was lost to another worker."""
        until = clock.now() + timedelta(seconds=LEASE_S)
        mine = ControlLease.objects.filter(pk=1, token=self.token)
        return bool(mine.update(expires_at=until))

    def note(self, *, began_at: datetime, took_ms: int) -> None:
        """Remember when the cycle began and how long it took, for the pace of the next."""
        self.last_began_at, self.last_took_ms = began_at, took_ms
        ControlLease.objects.filter(pk=1, token=self.token).update(
            last_began_at=began_at, last_took_ms=took_ms
        )


@contextmanager
def lease() -> Iterator[Fence | None]:
    """Hold the control lease, or get None at once when another worker does."""
    now = clock.now()
    free = Q(expires_at__isnull=True) | Q(expires_at__lt=now)
    taken = ControlLease.objects.filter(free, pk=1).update(
        token=F("token") + 1,
        holder=f"{socket.gethostname()[:40]}:{os.getpid()}",
        expires_at=now + timedelta(seconds=LEASE_S),
    )
    if not taken:
        yield None
        return
    row = ControlLease.objects.get(pk=1)
    fence = Fence(row.token, row.last_began_at, row.last_took_ms)
    try:
        yield fence
    finally:
        ControlLease.objects.filter(pk=1, token=fence.token).update(expires_at=None)
