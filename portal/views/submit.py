"""New job: the form, what is free while it is filled in, and one job for one form.

The form's key makes a double submit land on the first one's job.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from nodes import clock
from portal import floor, form_fields, forms, once, sooner, words
from portal.htmx import page, page_or_part, roles_of
from scheduling import advice, explaining, orders, queries, reasons
from scheduling.actors import person
from scheduling.errors import InvalidOrder, SchedulingError
from scheduling.models import Job, PriorityClass, Team
from scheduling.services import jobs

from .acts import signed_in
from .home import shares


@require_POST
def job_preview(request: HttpRequest) -> HttpResponse:
    """What the form would meet if it were sent now: a part beside it. Nothing is written."""
    form = forms.typed(request.POST.dict(), {})
    # What runs does not matter to where and when.
    form.values["command"] = form.values["command"] or "true"
    try:
        order = order_of(request, form)
        job, told = explaining.preview(order, user_id=roles_of(request).user_id, now=clock.now())
    except SchedulingError as why:
        return page(request, "jobs/_preview", {"refused": why.cause})
    context = {
        "job": job,
        "told": told,
        "reasons": reasons.told(told.reasons),
        "ways": sooner.ways(job, told.ways),
        "starts": words.starts(told.start),
        "gpu_hours": round(job.gpus * job.time_limit_s / 3600, 1),
        "advice": advice.of(job),
    }
    return page(request, "jobs/_preview", context)


@require_http_methods(["GET", "HEAD", "POST"])
def job_new(request: HttpRequest) -> HttpResponse:
    drawn = floor.draw(queries.nodes(), roles_of(request).viewer)
    choices = _choices(request, drawn)
    if request.method == "POST":
        form = forms.typed(request.POST.dict(), choices)
        job = _submitted(request, form)
        if job is not None:
            return redirect("job-detail", job)
        return _show(request, form, drawn, status=422)
    return _show(request, _prefilled(request, choices), drawn)


def _show(
    request: HttpRequest, form: forms.OrderForm, drawn: floor.Floor, status: int = 200
) -> HttpResponse:
    context = {
        "form": form,
        "floor": drawn,
        "shares": shares(roles_of(request).member_of, drawn),
        "copied": _copied(request),
        "estimate": form_fields.ESTIMATE,
    }
    response = page_or_part(request, "jobs/new", context)
    if status != 200:
        response.status_code = status
    return response


def _submitted(request: HttpRequest, form: forms.OrderForm) -> int | None:
    """The id of the job the form stands for, or None with the refusal on the form."""
    with once.only(roles_of(request).user_id, form.key) as slot:
        if slot.job_id is not None:
            return slot.job_id
        try:
            slot.job_id = _submit(request, form).pk
        except SchedulingError as why:
            form.refuse(why)
        return slot.job_id


def _submit(request: HttpRequest, form: forms.OrderForm) -> Job:
    order = order_of(request, form)
    return jobs.submit(
        person(signed_in(request)), order, user_id=roles_of(request).user_id, at=clock.now()
    )


def order_of(request: HttpRequest, form: forms.OrderForm) -> orders.JobOrder:
    """The order, or InvalidOrder with everything that is wrong at once."""
    wrong: dict[str, str] = {}
    order = None
    sent = form.order()
    try:
        order = orders.parse(sent)
    except InvalidOrder as why:
        wrong = why.fields
    wrong = form.errors | wrong | _foreign_team(request, str(sent["team"]))
    if order is None or wrong:
        first = next(iter(wrong.values()), "Nothing was sent.")
        raise InvalidOrder(first, next_step="Correct the form and send it again.", fields=wrong)
    return order


def _foreign_team(request: HttpRequest, name: str) -> dict[str, str]:
    """A team that is not the person's is told like one that does not exist."""
    # The database takes no NUL, and no team has one.
    names = [] if "\0" in name else [name]
    team_id = Team.objects.filter(name__in=names).values_list("pk", flat=True).first()
    if team_id is not None and roles_of(request).may_submit(team_id):
        return {}
    return {"team": f"You are in no team {name!r}." if name else "Choose the team to charge."}


def _choices(request: HttpRequest, drawn: floor.Floor) -> dict[str, form_fields.Choices]:
    roles = roles_of(request)
    teams = queries.leaf_teams(roles.viewer)
    models = tuple(
        (model.name, f"{model.free} of {model.cards} free · {model.memory_gib} GiB")
        for model in drawn.models
    )
    free = f"{drawn.free} of {drawn.cards} free"
    pools = [pool.name for pool in queries.pools()]
    return {
        "team": forms.one_of(team.name for team in teams if roles.may_submit(team.pk)),
        "pool": forms.one_of(sorted(pools, key=lambda name: (name != "default", name))),
        "priority": forms.one_of(PriorityClass.objects.values_list("name", flat=True)),
        "gpu_model": (("", free), *models),
    }


def _prefilled(request: HttpRequest, choices: dict[str, form_fields.Choices]) -> forms.OrderForm:
    """The form for ``?from=<id>`` (a job the person sees), with single changes beside it."""
    changes = {name: text for name, text in request.GET.dict().items() if name in form_fields.NAMES}
    wanted = _copied(request)
    if wanted is not None:
        job = queries.job(roles_of(request).viewer, wanted)
        return forms.copied(job, choices, changes)
    form = forms.blank(choices)
    form.values |= changes
    return form


def _copied(request: HttpRequest) -> int | None:
    """The number in ``?from=``; None for anything else."""
    wanted = request.GET.get("from", "")
    return int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 19 else None
