"""Shapes of an estimate: what is known of a training run, and what it takes. Sizes are bytes."""

from typing import Any

from rest_framework import serializers

from scheduling.estimate.answer import Estimate
from scheduling.estimate.ask import OFFLOAD, OPTIMIZERS, PRECISIONS, RECOMPUTE


class AskSerializer(serializers.Serializer[Any]):
    """A training run. Described here, read by ``scheduling.estimate.ask.parse``."""

    parameters = serializers.CharField(help_text="How many: 7B, 350M or a number.")
    precision = serializers.ChoiceField(list(PRECISIONS), required=False, default="bf16")
    optimizer = serializers.ChoiceField(list(OPTIMIZERS), required=False, default="adamw")
    master_weights = serializers.BooleanField(required=False, default=False)
    zero = serializers.IntegerField(required=False, default=0, help_text="Stage; 3 is FSDP.")
    tp = serializers.IntegerField(required=False, default=1)
    pp = serializers.IntegerField(required=False, default=1)
    dp = serializers.IntegerField(required=False, default=1)
    sequence = serializers.IntegerField(required=False, allow_null=True)
    batch = serializers.IntegerField(required=False, allow_null=True, help_text="Micro-batch.")
    hidden = serializers.IntegerField(required=False, allow_null=True)
    layers = serializers.IntegerField(required=False, allow_null=True)
    heads = serializers.IntegerField(required=False, allow_null=True)
    recompute = serializers.ChoiceField(RECOMPUTE, required=False, default="none")
    offload = serializers.ChoiceField(OFFLOAD, required=False, default="none")
    headroom_percent = serializers.IntegerField(required=False, default=15)
    card_gb = serializers.IntegerField(required=False, default=80)
    request_gib = serializers.IntegerField(required=False, allow_null=True)


class CardMemorySerializer(serializers.Serializer[Any]):
    """Of one card, in bytes."""

    weights = serializers.IntegerField()
    gradients = serializers.IntegerField()
    optimizer = serializers.IntegerField()
    activations = serializers.IntegerField()
    total = serializers.IntegerField()
    headroom = serializers.IntegerField()


class EstimateSerializer(serializers.Serializer[Any]):
    """What it takes, and what was assumed."""

    verdict = serializers.CharField()
    fits = serializers.BooleanField(help_text="On one card of card_gb.")
    warning = serializers.CharField(help_text="Empty, or what is wrong with request_gib.")
    request_gib = serializers.IntegerField(help_text="What to ask for of each card.")
    cards = serializers.IntegerField()
    per_card = CardMemorySerializer()
    all_cards = serializers.IntegerField(help_text="The total of all cards.")
    host = serializers.IntegerField(help_text="In RAM, of all cards.")
    all_reduce = serializers.IntegerField(help_text="A step, at most; 0 with one copy.")
    all_reduce_ring = serializers.IntegerField(help_text="A step, each card, by a ring.")
    assumptions = serializers.ListField(child=serializers.CharField())


def told(found: Estimate) -> dict[str, Any]:
    """An estimate as it is sent."""
    card = found.card
    names = ("weights", "gradients", "optimizer", "activations", "total")
    return {
        "verdict": found.verdict,
        "fits": found.fits,
        "warning": found.warning,
        "request_gib": found.request_gib,
        "cards": found.ask.cards,
        "per_card": {name: getattr(card, name) for name in names} | {"headroom": found.headroom},
        "all_cards": card.total * found.ask.cards,
        "host": card.host,
        "all_reduce": found.all_reduce,
        "all_reduce_ring": found.ring,
        "assumptions": list(found.assumptions),
    }
