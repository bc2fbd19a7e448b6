"""The ledger lock: every writer of a claim holds it, in a short transaction.

It orders the writers; the constraints on Lease stand behind it. Freeing takes no lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.models import F

from .models import Ledger

LEDGER = 0x6A46  # any constant; one per purpose in this database


@contextmanager
def locked() -> Iterator[None]:
    """Open a transaction that holds the ledger lock and bumps the ledger's version.

    Nobody may speak to a machine inside. Waits for other writers (milliseconds).
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LEDGER])
        Ledger.objects.filter(pk=1).update(version=F("version") + 1)
        yield
