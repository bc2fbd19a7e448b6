"""Celery doors of the portal floor: forget what was kept for repeated requests."""

from celery import shared_task

from .api import idempotency


@shared_task(name="portal.prune")
def prune() -> None:
    idempotency.prune()
