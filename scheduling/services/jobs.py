"""What a person does to a job: submit, cancel, hold, release.

Each verb is one transaction, notes who did it, and asks for a look after commit. Who may do it
is the portal's question (``portal.access``); whether it makes sense in this state is this one's.
"""

from datetime import datetime

from django.db import transaction

from nodes import hints
from scheduling import audit, feasibility, pledges
from scheduling.actors import Actor
from scheduling.errors import InvalidOrder, WrongState
from scheduling.models import Job, JobLog, Pool, PriorityClass, Reservation, Team
from scheduling.orders import JobOrder
from scheduling.predictions import FORGOTTEN
from scheduling.states import DONE, LIVE, JobEvent, JobState, StopReason
from scheduling.stopping import ask_to_stop
from scheduling.transitions import locked, move


def submit(actor: Actor, order: JobOrder, *, user_id: int, at: datetime) -> Job:
    """Queue a job for its team and ask for a placement cycle.

    Raises InvalidOrder for what does not exist or exceeds the pool's rules, NeverFits for what
    no state of the inventory could hold (with the largest that could).
    """
    job = draft(order, user_id=user_id, at=at)
    feasibility.refuse_what_never_fits(job)
    with transaction.atomic():
        job.save()
        JobLog.objects.create(
            job=job,
            at=at,
            event=JobEvent.SUBMIT,
            to_state=JobState.PENDING,
            actor=actor.name,
        )
        audit.note(actor, "submit", f"job {job.pk}", at=at, team_id=job.team_id, gpus=job.gpus)
        hints.cycle_soon(f"job {job.pk} submitted")
    return job


def draft(order: JobOrder, *, user_id: int, at: datetime) -> Job:
    """The unsaved job that an order stands for. Raises InvalidOrder naming the field."""
    team = Team.objects.filter(name=order.team).first()
    if team is None or team.children.exists():
        raise _bad("team", f"There is no team {order.team!r} that jobs can be submitted for.")
    slot = _slot(order, team, at)
    pool = _pool_of(slot) if slot else _pool(order.pool)
    priority = PriorityClass.objects.filter(name=order.priority).first()
    if priority is None:
        known = ", ".join(PriorityClass.objects.values_list("name", flat=True))
        raise _bad("priority", f"There is no priority class {order.priority!r}. Valid: {known}.")
    job = Job(
        team=team,
        user_id=user_id,
        pool=pool,
        priority_class=priority,
        name=order.name,
        command=order.command,
        workdir=order.workdir,
        env=dict(order.env),
        gpus=order.gpus,
        nodes=order.nodes or 1,
        gpu_model=order.gpu_model,
        gpu_memory_mib=order.gpu_memory_mib,
        gpu_memory_limit_mib=order.gpu_memory_limit_mib,
        gpu_capability=order.gpu_capability,
        parallelism=dict(order.parallelism),
        topology_level=order.topology_level,
        topology_required=order.topology_required,
        cpus=order.cpus,
        memory_mib=order.memory_mib,
        disk_gib=order.disk_gib,
        labels=dict(order.labels),
        launch=order.launch,
        device_ids=order.device_ids,
        time_limit_s=_time_limit(order, pool),
        grace_s=_grace(order, pool, priority),
        stop_signal=order.stop_signal,
        signal_to=order.signal_to,
        checkpoint_interval_s=order.checkpoint_interval_s,
        requeue=order.requeue,
        begin_at=order.begin_at,
        after=_known(order.after, team),
        after_any=order.after_any,
        reservation=slot,
        submitted_at=at,
    )
    if order.nodes is None and order.gpus > 1:
        job.nodes = feasibility.fewest_nodes(job)
    return job


def cancel(actor: Actor, job: Job, *, at: datetime, reason: str = "") -> Job:
    """End a job: at once while it waits, with its grace period while it has GPUs.

    Raises WrongState when it has ended. Asking twice is asking once.
    """
    with transaction.atomic():
        row = locked(job.pk)
        if row.state in DONE:
            raise WrongState(
                f"Job {job.pk} has ended already ({row.state}).",
                next_step="Nothing is left to cancel.",
            )
        audit.note(actor, "cancel", f"job {job.pk}", at=at, team_id=row.team_id, reason=reason)
        ask_to_stop(actor, row, StopReason.CANCEL, at=at, note=reason or "cancelled")
        pledges.end([job.pk], "the job was cancelled", at=at)
        hints.cycle_soon(f"job {job.pk} cancelled")
    return row


def hold(actor: Actor, job: Job, *, at: datetime, reason: str = "") -> Job:
    """Keep a waiting job from being placed until it is released."""
    return _step(actor, job, JobEvent.HOLD, at=at, reason=reason)


def release(actor: Actor, job: Job, *, at: datetime, reason: str = "") -> Job:
    """Let a held job wait for its turn again, in its old place."""
    return _step(actor, job, JobEvent.RELEASE, at=at, reason=reason)


def _step(actor: Actor, job: Job, event: JobEvent, *, at: datetime, reason: str) -> Job:
    with transaction.atomic():
        row = locked(job.pk)
        if not move(actor, row, event, at=at, note=reason):
            raise _out_of_place(row, event)
        Job.objects.filter(pk=row.pk).update(eligible_at=None, **FORGOTTEN)
        audit.note(actor, str(event), f"job {job.pk}", at=at, team_id=row.team_id, reason=reason)
        if event == JobEvent.HOLD:
            pledges.end([job.pk], "the job was held", at=at)
        hints.cycle_soon(f"job {job.pk} {event}")
    return row


def _out_of_place(job: Job, event: JobEvent) -> WrongState:
    step = "Cancel it instead." if job.state in LIVE else "Look at the job's page."
    return WrongState(f"Job {job.pk} is {job.state}; {event} is not possible.", next_step=step)


def _pool(name: str) -> Pool:
    pools = list(Pool.objects.order_by("pk"))
    for pool in pools:
        if pool.name == name or (not name and (pool.name == "default" or len(pools) == 1)):
            return pool
    known = ", ".join(pool.name for pool in pools) or "none yet; an operator adds one"
    raise _bad("pool", f"There is no pool {name or 'default'!r}. Valid: {known}.")


def _slot(order: JobOrder, team: Team, at: datetime) -> Reservation | None:
    """The reservation the job names: one of its own team that is not over and has cards enough."""
    if order.reservation is None:
        return None
    found = Reservation.objects.filter(
        pk=order.reservation, team=team, state__in=Reservation.LIVE, end_at__gt=at
    ).first()
    if found is None:
        raise _bad(
            "reservation", f"{team.name} has no reservation {order.reservation} that is not over."
        )
    if order.gpus > found.gpus:
        text = f"Reservation {found.pk} has {found.gpus} cards; {order.gpus} are asked."
        raise _bad("gpus", text)
    return found


def _pool_of(slot: Reservation) -> Pool:
    """The pool that the cards of a reservation are in."""
    return Pool.objects.filter(
        members__node__gpus__card__reservations__reservation=slot,
        members__node__gpus__card__reservations__live=True,
    )[0]


def _known(after: tuple[int, ...], team: Team) -> list[int]:
    """Jobs to wait for, all of the team: of another one nobody learns that there is such a job."""
    known = set(Job.objects.filter(pk__in=after, team=team).values_list("pk", flat=True))
    missing = [id for id in after if id not in known]
    if missing:
        raise _bad("after", f"There is no job {missing[0]} in team {team.name} to wait for.")
    return list(after)


def _time_limit(order: JobOrder, pool: Pool) -> int:
    limit = order.time_limit_s or min(pool.default_time_limit_s, pool.max_time_limit_s)
    if limit > pool.max_time_limit_s:
        hours = pool.max_time_limit_s / 3600
        raise _bad(
            "time_limit", f"Pool {pool.name} allows {hours:g} h; {limit / 3600:g} h is asked."
        )
    return limit


def _grace(order: JobOrder, pool: Pool, priority: PriorityClass) -> int:
    grace = order.grace_s
    if grace is None:
        return min(max(priority.grace_s, pool.min_grace_s), pool.max_grace_s)
    if not pool.min_grace_s <= grace <= pool.max_grace_s:
        raise _bad(
            "checkpoint",
            f"Pool {pool.name} allows a grace of {pool.min_grace_s} to {pool.max_grace_s} s; "
            f"{grace} s is asked.",
        )
    return grace


def _bad(field: str, sentence: str) -> InvalidOrder:
    return InvalidOrder(
        sentence, next_step="Correct the order and send it again.", fields={field: sentence}
    )
