"""Celery doors: a name, a queue, one call. No decisions, no retries: the reconciler repeats."""

from celery import shared_task
from django.db import transaction

from nodes import clock, hearing

from . import credits, cycle, finishing, launch, looks, reconcile, reports, slots, strays, usage

# Events of the kept connections are stored by the floor that knows what runs mean.
hearing.listen(reports.heard)


@shared_task(name="scheduling.run_cycle")
def run_cycle(always: bool = False) -> None:
    cycle.serve(always=always)


@shared_task(name="scheduling.take_reports")
def take_reports() -> None:
    reports.take()


@shared_task(name="scheduling.reconcile")
def run_reconcile() -> None:
    with transaction.atomic():
        reconcile.reconcile()


@shared_task(name="scheduling.account")
def run_account() -> None:
    usage.account(clock.now())
    credits.give(clock.now())


@shared_task(name="scheduling.tend_slots")
def tend_slots() -> None:
    slots.tend()


@shared_task(name="scheduling.launch")
def run_launch(attempt_ids: list[int]) -> None:
    launch.launch(attempt_ids)


@shared_task(name="scheduling.stop")
def run_stop(attempt_id: int) -> None:
    launch.stop(attempt_id)


@shared_task(name="scheduling.finish")
def run_finish(attempt_id: int) -> None:
    finishing.finish(attempt_id)


@shared_task(name="scheduling.look")
def run_look(node_id: int) -> None:
    looks.look(node_id)


@shared_task(name="scheduling.meet_unknown")
def meet_unknown(node_id: int, run_id: str) -> None:
    strays.meet(node_id, run_id)


@shared_task(name="scheduling.look_all")
def look_all() -> None:
    looks.look_at_all()
