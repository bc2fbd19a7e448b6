"""Shapes of what is not a job: problems, people, teams, tokens, nodes and their cards.

A shape both renders the answer and describes it in the schema, so the two cannot differ.
"""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from nodes import conditions
from nodes.models import Gpu, Node
from scheduling.models import Lease


class ProblemSerializer(serializers.Serializer[Any]):
    """Why a request was refused and what to do about it."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="Stable; for programs.")
    detail = serializers.CharField(help_text="The cause, for people.")
    next_step = serializers.CharField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """``fields`` is a name that a serializer has for itself, so it is put in here."""
        sentences = serializers.DictField(child=serializers.CharField())
        return {**super().get_fields(), "fields": sentences}


class TeamSerializer(serializers.Serializer[Any]):
    """A team the reader may see; ``limit_gpus`` null means no limit."""

    name = serializers.CharField()
    title = serializers.CharField()
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]
    role = serializers.ChoiceField(["member", "lead"], allow_null=True)
    leaf = serializers.BooleanField(help_text="Jobs may be submitted for it.")
    held_gpus = serializers.IntegerField()
    limit_gpus = serializers.IntegerField(allow_null=True)


class TeamsSerializer(serializers.Serializer[Any]):
    results = TeamSerializer(many=True)


class MeSerializer(serializers.Serializer[Any]):
    """Who the token or session belongs to, and what that allows."""

    username = serializers.CharField()
    operator = serializers.BooleanField()
    auditor = serializers.BooleanField()
    teams = TeamSerializer(many=True)


class TokenOrderSerializer(serializers.Serializer[Any]):
    """Signed in: a name is enough. Not signed in: username and password too."""

    name = serializers.CharField(required=False, max_length=120)
    username = serializers.CharField(required=False, max_length=150)
    password = serializers.CharField(required=False, max_length=4096)


class TokenSerializer(serializers.Serializer[Any]):
    """A token as its owner sees it later: never whole again."""

    prefix = serializers.CharField(source="token_key")
    name = serializers.SerializerMethodField()
    created = serializers.DateTimeField()
    expiry = serializers.DateTimeField(allow_null=True)

    def get_name(self, token: Any) -> str:
        named = getattr(token, "named", None)
        return named.name if named is not None else ""


class NewTokenSerializer(TokenSerializer):
    """The one answer that holds the token."""

    token = serializers.SerializerMethodField()
    username = serializers.CharField(source="user.username")

    def get_token(self, token: Any) -> str:
        return str(self.context["token"])


class TokensSerializer(serializers.Serializer[Any]):
    results = TokenSerializer(many=True)


class GpuSerializer(serializers.Serializer[Gpu]):
    """A card. ``job`` and ``team`` are named only where the reader may see that job."""

    uuid = serializers.CharField()
    node = serializers.CharField(source="node.name")
    index = serializers.IntegerField()
    model = serializers.CharField()
    memory_mib = serializers.IntegerField()
    used_mib = serializers.IntegerField()
    health = serializers.ChoiceField(Node.Health.values)
    health_rule = serializers.CharField(help_text="The rule that holds; empty: none.")
    health_evidence = serializers.CharField(help_text="What it saw, or why a person decided so.")
    health_advice = serializers.SerializerMethodField(help_text="What to do about it.")
    use = serializers.SerializerMethodField()
    job = serializers.SerializerMethodField()
    team = serializers.SerializerMethodField()
    foreign_use = serializers.CharField(help_text="Who from outside uses it; empty: nobody.")

    @extend_schema_field(
        serializers.ChoiceField(
            ["free", "held", "releasing", "quarantined", "foreign", "degraded", "failed"]
        )
    )
    def get_use(self, gpu: Gpu) -> str:
        lease = _lease(gpu)
        if lease is not None:
            return str(lease.state)
        card = getattr(gpu, "card", None)
        if card is not None and card.quarantined_at is not None:
            return "quarantined"
        if gpu.health in (Node.Health.FAILED, Node.Health.DEGRADED):
            return str(gpu.health)
        return "foreign" if gpu.foreign_use else "free"

    def get_health_advice(self, gpu: Gpu) -> str:
        return conditions.advice_of([gpu.health_rule]).get(gpu.health_rule, "")

    def get_job(self, gpu: Gpu) -> int | None:
        lease = self._seen(gpu)
        return lease.part.attempt.job_id if lease else None

    def get_team(self, gpu: Gpu) -> str | None:
        lease = self._seen(gpu)
        return lease.part.attempt.job.team.name if lease else None

    def _seen(self, gpu: Gpu) -> Lease | None:
        lease, teams = _lease(gpu), self.context["viewer"].team_ids
        if lease is None or teams is None:
            return lease
        return lease if lease.part.attempt.job.team_id in teams else None


class GpusSerializer(serializers.Serializer[Any]):
    results = GpuSerializer(many=True)


class NodeSerializer(serializers.Serializer[Node]):
    """A machine. ``trouble`` is told to operators only: it names addresses and keys."""

    name = serializers.CharField()
    pool = serializers.SerializerMethodField()
    liveness = serializers.ChoiceField(Node.Liveness.values)
    health = serializers.ChoiceField(Node.Health.values)
    accepts_work = serializers.BooleanField()
    trouble = serializers.SerializerMethodField()
    cpus = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    disk_gib = serializers.IntegerField()
    labels = serializers.DictField(child=serializers.CharField())
    rack = serializers.CharField()
    block = serializers.CharField()
    seen_at = serializers.DateTimeField(allow_null=True)
    gpus = serializers.SerializerMethodField()

    def get_pool(self, node: Node) -> str | None:
        place = getattr(node, "pool_node", None)
        return place.pool.name if place else None

    def get_trouble(self, node: Node) -> str:
        return (node.alarm or node.silence) if self.context["operator"] else ""

    @extend_schema_field(GpuSerializer(many=True))
    def get_gpus(self, node: Node) -> Any:
        return [GpuSerializer(card, context=self.context).data for card in cards_of(node)]


class NodesSerializer(serializers.Serializer[Any]):
    results = NodeSerializer(many=True)


def cards_of(node: Node) -> list[Gpu]:
    """The node's cards, each knowing its node without another query."""
    cards = list(node.gpus.all())
    for card in cards:
        card.node = node
    return cards


def _lease(gpu: Gpu) -> Lease | None:
    leases: list[Lease] = getattr(getattr(gpu, "card", None), "live_leases", [])
    return leases[0] if leases else None
