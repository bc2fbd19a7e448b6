"""How much memory a training run takes: a part beside the order form, which can fill the form in.

Reads the form's own fields where it has them (GPUs, parallelism, memory); writes nothing.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from portal.form_fields import ESTIMATE, Field
from portal.htmx import page
from scheduling.errors import SchedulingError
from scheduling.estimate.answer import estimate, gb
from scheduling.estimate.ask import parse
from scheduling.order_fields import AXES


@require_POST
def job_estimate(request: HttpRequest) -> HttpResponse:
    """The sums for what is typed so far. With ``use`` the form's memory field comes filled in."""
    sent = request.POST.dict()
    if not sent.get("e_parameters", "").strip():
        return page(request, "jobs/_estimate", {})
    try:
        found = estimate(parse(_asked(sent)))
    except SchedulingError as why:
        return page(request, "jobs/_estimate", {"refused": why.cause})
    card = found.card
    rows = [
        (name, gb(getattr(card, name)))
        for name in ("weights", "gradients", "optimizer", "activations", "total")
    ]
    context = {
        "found": found,
        "rows": rows,
        "host": gb(card.host) if card.host else "",
        "traffic": (gb(found.all_reduce), gb(found.ring)) if found.all_reduce else None,
        "filled": _filled(found.request_gib) if "use" in sent else None,
    }
    return page(request, "jobs/_estimate", context)


def _asked(sent: dict[str, str]) -> dict[str, Any]:
    """The figures of the part, and those the form has anyway."""
    fields: dict[str, Any] = {
        one.name.removeprefix("e_"): sent.get(one.name, "").strip() for one in ESTIMATE
    }
    axes = {axis: sent.get(axis, "").strip() for axis in AXES}
    gpus, cut = sent.get("gpus", "").strip(), 1
    for axis in ("tp", "pp"):
        cut *= int(axes[axis]) if _small(axes[axis]) else 1
    if not axes["dp"] and _small(gpus) and cut and int(gpus) % cut == 0:
        axes["dp"] = str(int(gpus) // cut)
    asked = sent.get("gpu_memory_gib", "").strip()
    return fields | axes | ({"request_gib": asked} if _small(asked) and int(asked) else {})


def _small(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6


def _filled(request_gib: int) -> Field:
    return Field("gpu_memory_gib", "Memory per card, GiB", "number", value=str(request_gib))
