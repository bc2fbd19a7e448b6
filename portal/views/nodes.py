"""Nodes: is anything broken, whose move is it; and what an operator does about it."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from nodes import clock, conditions, keys
from nodes.models import Gpu, Node
from portal import access, floor
from portal.floor import Floor, NodeView
from portal.htmx import page_or_part, roles_of
from portal.words import count
from scheduling import queries
from scheduling.actors import person
from scheduling.errors import NotAllowed
from scheduling.models import AuditEntry, Pool
from scheduling.services import nodes as services

from .acts import signed_in

ACCESS: dict[str, str] = {
    Pool.Access.PROCESS: "Jobs run as the portal’s own account there: they see each other’s files.",
    Pool.Access.ACCOUNT: "Each job runs as its owner’s own account there.",
    Pool.Access.SANDBOX: "Each job runs in a sandbox with its own cards only.",
    Pool.Access.CONTAINER: "Each job runs in a container with its own cards only.",
}
LIVENESS: dict[str, str] = {
    Node.Liveness.UP: "up",
    Node.Liveness.SUSPECT: "silent",
    Node.Liveness.LOST: "lost",
}


@require_safe
def node_list(request: HttpRequest) -> HttpResponse:
    drawn = floor.draw(queries.nodes(), roles_of(request).viewer)
    context = {
        "floor": drawn,
        "sentence": _sentence(drawn),
        "troubled": sorted(filter(_trouble, drawn.nodes), key=_worst_first),
    }
    return page_or_part(request, "nodes/list", context)


@require_safe
def node_detail(request: HttpRequest, name: str) -> HttpResponse:
    roles = roles_of(request)
    drawn = floor.draw([queries.node(name)], roles.viewer)
    view = drawn.nodes[0]
    node = view.node
    context = {
        "view": view,
        "node": node,
        "sentence": _node_sentence(view),
        "holders": _holders(view),
        "access": ACCESS.get(_access(view.node), ""),
        "key_line": keys.authorized_line(node.public_key, name=node.name) if roles.operator else "",
        "sick": _sick(view),
        "changes": queries.health_changes(node),
        "acts": _acts_on(view.node) if roles.operator or roles.auditor else None,
    }
    return page_or_part(request, "nodes/detail", context)


@require_POST
def node_switch(request: HttpRequest, name: str) -> HttpResponse:
    """Cordon a node or let it take work again, with the operator's reason."""
    node = _operated(request, name)
    accepts = request.POST.get("accepts") == "yes"
    services.set_accepts_work(
        person(signed_in(request)), node, accepts, at=clock.now(), reason=_reason(request)
    )
    told = "takes work again" if accepts else "takes no new work; jobs there run on"
    messages.success(request, f"{node.name} {told}.")
    return redirect("node-detail", node.name)


@require_POST
def node_clear_alarm(request: HttpRequest, name: str) -> HttpResponse:
    """Let traffic to a node go on. The reason is wanted: it is what the next reader has."""
    node = _operated(request, name)
    reason = _reason(request)
    if not reason:
        messages.error(request, "The alarm stays. Say what was found before clearing it.")
    else:
        services.clear_alarm(person(signed_in(request)), node, at=clock.now(), reason=reason)
        messages.success(request, f"The alarm of {node.name} is cleared; it is asked again.")
    return redirect("node-detail", node.name)


def _operated(request: HttpRequest, name: str) -> Node:
    node = queries.node(name)
    if not access.may_operate(request.user, node):
        raise NotAllowed(
            "Only operators may change what a node does.", next_step="Ask an operator."
        )
    return node


def _reason(request: HttpRequest) -> str:
    return " ".join(request.POST.get("reason", "").replace("\0", "").split())[:500]


def _trouble(view: NodeView) -> bool:
    sick = any(cell.state in ("failed", "quarantined", "foreign") for cell in view.cells)
    return sick or bool(view.why_closed)


def _worst_first(view: NodeView) -> tuple[bool, bool, bool, str]:
    node = view.node
    lost = node.liveness == Node.Liveness.LOST
    return (not node.alarm, not lost, node.liveness == Node.Liveness.UP, node.name)


def _sentence(drawn: Floor) -> tuple[str, str]:
    alarms = sum(bool(view.node.alarm) for view in drawn.nodes)
    up = sum(view.node.liveness == Node.Liveness.UP for view in drawn.nodes)
    if not drawn.nodes:
        return "No node is enrolled yet.", ""
    rest = f"{drawn.free} of {count(drawn.cards, 'card')} are free."
    if alarms:
        needs = f"{count(alarms, 'node')} {'needs' if alarms == 1 else 'need'} a person."
        return needs, f" {up} of {count(len(drawn.nodes), 'node')} are up, {rest}"
    if up == len(drawn.nodes):
        everyone = "The node is up" if up == 1 else f"All {up} nodes are up"
        return everyone, f", {rest}"
    return f"{up} of {len(drawn.nodes)} nodes are up", f", {rest}"


def _node_sentence(view: NodeView) -> tuple[str, str]:
    node = view.node
    free = f"{view.free} of {count(len(view.cells), 'card')} are free"
    if node.alarm:
        return "needs a person", ": traffic to it is stopped."
    if node.liveness != Node.Liveness.UP:
        return f"is {LIVENESS[node.liveness]}", ". What runs there keeps its cards."
    if view.why_closed:
        return "takes no new work", f" ({view.why_closed}); jobs there run on."
    return "is up", f" and takes work; {free}."


def _sick(view: NodeView) -> list[tuple[Gpu, str]]:
    """The cards that are not well, each with what its rule advises."""
    gpus = [cell.gpu for cell in view.cells if cell.gpu.health != Node.Health.OK]
    advice = conditions.advice_of(gpu.health_rule for gpu in gpus)
    return [(gpu, advice.get(gpu.health_rule, "")) for gpu in gpus]


def _holders(view: NodeView) -> dict[int, str]:
    """Names of the people whose jobs the viewer may see here, by user id. One query."""
    ids = {cell.job.user_id for cell in view.cells if cell.job is not None}
    return dict(User.objects.filter(pk__in=ids).values_list("pk", "username")) if ids else {}


def _acts_on(node: Node) -> QuerySet[AuditEntry]:
    return AuditEntry.objects.filter(subject=f"node {node.name}").order_by("-id")[:8]


def _access(node: Node) -> str:
    place = getattr(node, "pool_node", None)
    return place.pool.access if place is not None else ""
