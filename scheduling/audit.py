"""The audit log's only writer. Called in the transaction of the act itself."""

from datetime import datetime
from typing import Any

from .actors import Actor
from .models import AuditEntry


def note(
    actor: Actor,
    verb: str,
    subject: str,
    *,
    at: datetime,
    team_id: int | None = None,
    reason: str = "",
    **facts: Any,
) -> None:
    """Add one entry. ``subject`` is kind and id ("job 17"); ``facts`` are JSON, no secrets."""
    AuditEntry.objects.create(
        at=at,
        actor=actor.name,
        user_id=actor.user_id,
        verb=verb,
        subject=subject,
        team_id=team_id,
        reason=reason,
        facts=facts,
    )
