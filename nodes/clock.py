"""The one clock of every decision: PostgreSQL's.

Web, workers and beat may run on machines whose clocks differ; the database they share has one.
Durations on a node are the node's own (monotonic) and never compared with this.
"""

from datetime import datetime
from typing import cast

from django.db import connection


def now() -> datetime:
    """The database's wall time, aware, UTC. One round trip; it runs on inside a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row = cursor.fetchone()
    return cast(datetime, row[0])
