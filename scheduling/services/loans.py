"""Loans: one leaf team's own lent to another for a time, by the lender's lead, noted.

Who may is the portal's question. A loan is a limit of the ledger, so it takes the ledger lock;
it begins and ends by its dates, in the first cycle after them, and stops no job.
"""

from datetime import datetime

from django.db.models import Q

from nodes import hints
from scheduling import audit, ledger
from scheduling.actors import Actor
from scheduling.errors import InvalidOrder, WrongState
from scheduling.models import Loan, Quota, Team

GPU = 1000


def make(actor: Actor, loan: Loan, *, at: datetime) -> Loan:
    """Lend. Raises InvalidOrder, naming fields, for what cannot be lent so."""
    loan.made_at, loan.made_by_id = at, actor.user_id
    _refuse_odd_loans(loan, at)
    with ledger.locked():
        _refuse_more_than_its_own(loan)
        loan.save()
        _note(actor, "lend", loan, at)
    return loan


def end(actor: Actor, loan: Loan, *, at: datetime, reason: str = "") -> Loan:
    """Give back before its time. Raises WrongState for a loan that is over."""
    with ledger.locked():
        loan = Loan.objects.select_related("lender", "borrower").get(pk=loan.pk)
        over = loan.ended_at or loan.until_at
        if over <= at:
            raise WrongState(
                f"Loan {loan.pk} ended at {over:%Y-%m-%d %H:%M} UTC.",
                next_step="Nothing is left to give back.",
            )
        loan.ended_at = at
        loan.save(update_fields=["ended_at"])
        _note(actor, "end loan", loan, at, reason)
    return loan


def _note(actor: Actor, verb: str, loan: Loan, at: datetime, reason: str = "") -> None:
    for team in (loan.lender, loan.borrower):
        audit.note(
            actor,
            verb,
            f"loan {loan.pk}",
            at=at,
            team_id=team.pk,
            reason=reason or loan.reason,
            lender=loan.lender.name,
            borrower=loan.borrower.name,
            gpu_model=loan.gpu_model,
            milli=loan.milli,
            from_at=loan.from_at.isoformat(),
            until_at=loan.until_at.isoformat(),
        )
    hints.cycle_soon(f"loan {loan.pk}")


def _refuse_odd_loans(loan: Loan, at: datetime) -> None:
    fields: dict[str, str] = {}
    if loan.lender_id == loan.borrower_id:
        fields["borrower"] = f"{loan.borrower.name} is the lender; lend to another team."
    for name, team in (("lender", loan.lender), ("borrower", loan.borrower)):
        if Team.objects.filter(parent=team).exists():
            fields[name] = f"{team.name} has teams below it; a loan is between teams with jobs."
    if loan.milli < 1:
        fields["milli"] = f"milli is {loan.milli}; it is 1 or more, such as 4000 for 4 GPUs."
    if loan.until_at <= max(loan.from_at, at):
        fields["until_at"] = "It ends before it begins, or is over already; set a later time."
    if fields:
        raise InvalidOrder(
            f"That cannot be lent: {' '.join(fields.values())}",
            next_step="Change the fields that are named.",
            fields=fields,
        )


def _refuse_more_than_its_own(loan: Loan) -> None:
    quota = Quota.objects.filter(team=loan.lender, gpu_model=loan.gpu_model).first()
    own = quota.nominal_milli if quota else 0
    at_once = Loan.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=loan.from_at),
        lender=loan.lender,
        gpu_model=loan.gpu_model,
        from_at__lt=loan.until_at,
        until_at__gt=loan.from_at,
    )
    lent = sum(at_once.values_list("milli", flat=True))
    if loan.milli + lent > own:
        kind = loan.gpu_model or "GPUs"
        sentence = (
            f"{loan.lender.name} has {own / GPU:g} {kind} of its own and has lent {lent / GPU:g} "
            f"of them for that time, so it can lend {max(0, own - lent) / GPU:g}, "
            f"not {loan.milli / GPU:g}."
        )
        raise InvalidOrder(sentence, next_step="Lend less.", fields={"milli": sentence})
