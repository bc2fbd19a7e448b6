"""Shapes of how a model is cut and how near its cards are to lie."""

from typing import Any

from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

from scheduling.order_fields import LEVELS


class ParallelismSerializer(serializers.Serializer[Any]):
    """How the model is cut: the product is ``gpus``. A tensor-parallel group stays on one node."""

    tp = serializers.IntegerField(required=False, min_value=1, default=1)
    pp = serializers.IntegerField(required=False, min_value=1, default=1)
    dp = serializers.IntegerField(required=False, min_value=1, help_text="The rest by default.")


def topology_shape(**options: Any) -> serializers.Serializer[Any]:
    """How near the cards are to lie; one of the two."""
    # Inline, since a serializer's own "required" is a flag.
    fields: dict[str, serializers.Field[Any, Any, Any, Any]] = {
        name: serializers.ChoiceField(choices=LEVELS, required=False)
        for name in ("required", "preferred")
    }
    return inline_serializer("Topology", fields, **options)
