"""Shapes of answers about waiting: who is ahead, what would help, what an order would meet."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling import reasons
from scheduling.explaining import Explanation

from .shapes_jobs import AdviceSerializer, ExplainSerializer, ReasonSerializer


class RivalSerializer(serializers.Serializer[Any]):
    """A job ahead: by priority, because it came earlier, or because it is its team's turn."""

    id = serializers.IntegerField()
    team = serializers.CharField()
    why = serializers.ChoiceField(["priority", "earlier", "order"])


class TeamCountSerializer(serializers.Serializer[Any]):
    team = serializers.CharField()
    count = serializers.IntegerField()


class AheadSerializer(serializers.Serializer[Any]):
    """Who waits ahead for the same cards: how many, the first ten, how many of each team."""

    count = serializers.IntegerField()
    jobs = RivalSerializer(many=True)
    teams = serializers.SerializerMethodField()

    @extend_schema_field(TeamCountSerializer(many=True))
    def get_teams(self, ahead: Any) -> list[dict[str, Any]]:
        return [{"team": team, "count": count} for team, count in ahead.teams]


class WaySerializer(serializers.Serializer[Any]):
    """A field of the order and a value with which, alone, the job would start now."""

    field = serializers.ChoiceField(["gpus", "nodes", "gpu_model", "pool", "time_limit"])
    value = serializers.JSONField(help_text="As in an order; time_limit in seconds.")

    def to_representation(self, way: Any) -> dict[str, Any]:
        return {"field": way.field, "value": way.value}


class AskedSerializer(ExplainSerializer):
    """Why the job is where it is, who is ahead, and what would start it now."""

    starts_now = serializers.BooleanField(help_text="It starts in the next cycle.")
    ahead = AheadSerializer()
    ways = WaySerializer(many=True)


class PlaceSerializer(serializers.Serializer[Any]):
    node = serializers.CharField()
    gpus = serializers.IntegerField()


class CostSerializer(serializers.Serializer[Any]):
    """What the order can use at most: its GPUs for the whole of its time limit."""

    gpus = serializers.IntegerField()
    time_limit_s = serializers.IntegerField()
    gpu_hours = serializers.FloatField()


class PreviewSerializer(serializers.Serializer[Any]):
    """What an order would meet now. ``fits``: some state of the machines could hold it."""

    fits = serializers.BooleanField()
    starts_now = serializers.BooleanField()
    nodes = PlaceSerializer(many=True, help_text="Where it would start now.")
    position = serializers.IntegerField(allow_null=True)
    reasons = ReasonSerializer(many=True)
    start_from = serializers.DateTimeField(allow_null=True)
    start_by = serializers.DateTimeField(allow_null=True)
    start_unsure = serializers.ChoiceField(["", "unknown", "quota", "dependency", "never"])
    ahead = AheadSerializer()
    ways = WaySerializer(many=True)
    cost = CostSerializer()
    advice = AdviceSerializer(many=True)


def answer(told: Explanation) -> dict[str, Any]:
    """What both shapes have in common, from an explanation."""
    return {
        "starts_now": told.starts,
        "position": told.position,
        "reasons": reasons.told(told.reasons),
        "start_from": told.start.start_from,
        "start_by": told.start.start_by,
        "start_unsure": told.start.unsure,
        "ahead": told.ahead,
        "ways": told.ways,
    }
