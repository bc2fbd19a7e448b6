"""One form, one job: what a form's key made is remembered, and a second submit lands there.

The row is written in the transaction of the act, under UNIQUE(user, key): of two submits that
arrive together the second waits for the first. It is forgotten with the API's keys, after a day.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import transaction

from .models import IdempotencyKey

KEPT = 303


@dataclass(slots=True)
class Slot:
    """Set ``job_id`` to remember it; it is already set when the key was used before."""

    job_id: int | None = None


@contextmanager
def only(user_id: int, key: str) -> Iterator[Slot]:
    """Hold the place of (user, key) for the body, in one transaction. Refusals leave nothing."""
    with transaction.atomic():
        row, new = IdempotencyKey.objects.get_or_create(user_id=user_id, key=f"form {key}"[:200])
        slot = Slot(int(row.location) if row.location else None)
        yield slot
        if slot.job_id is None:
            row.delete()
        elif new or not row.location:
            row.status, row.location = KEPT, str(slot.job_id)
            row.save(update_fields=["status", "location"])
