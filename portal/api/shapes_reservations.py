"""Shapes of bookings: what may be sent, one's own as wholes, everybody's as busy blocks."""

from datetime import datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.booking_orders import KINDS, TITLE_MOST
from scheduling.models import Reservation


class ReservationOrderSerializer(serializers.Serializer[Any]):
    """Cards for a slot: by number (``gpus``), by node (``on``) or by UUID (``cards``)."""

    team = serializers.CharField(required=False, help_text="Not for maintenance.")
    title = serializers.CharField(required=False, max_length=TITLE_MOST)
    kind = serializers.ChoiceField(KINDS, required=False, default="use")
    gpus = serializers.IntegerField(required=False, min_value=1)
    nodes = serializers.IntegerField(required=False, min_value=1, default=1)
    gpu_model = serializers.CharField(required=False)
    gpu_memory_gib = serializers.IntegerField(required=False, min_value=0)
    on = serializers.ListField(child=serializers.CharField(), required=False)
    cards = serializers.ListField(child=serializers.CharField(), required=False)
    start = serializers.CharField(required=False, help_text="ISO 8601 with its zone; or now.")
    end = serializers.CharField(required=False, help_text="The same; or duration.")
    duration = serializers.CharField(required=False, help_text="Such as 45m, 4h, 2d.")


class ReservationChangeSerializer(serializers.Serializer[Any]):
    """What is to be different; the rest stays."""

    title = serializers.CharField(required=False, max_length=TITLE_MOST)
    gpus = serializers.IntegerField(required=False, min_value=1)
    start = serializers.CharField(required=False)
    end = serializers.CharField(required=False)
    duration = serializers.CharField(required=False)


class BookedCardSerializer(serializers.Serializer[Any]):
    uuid = serializers.CharField(source="card.gpu.uuid")
    node = serializers.CharField(source="card.gpu.node.name")
    index = serializers.IntegerField(source="card.gpu.index")
    model = serializers.CharField(source="card.gpu.model")


class ReservationSerializer(serializers.Serializer[Reservation]):
    """A booking as those of its team see it; ``team`` null is maintenance."""

    id = serializers.IntegerField()
    team = serializers.SerializerMethodField()
    user = serializers.CharField(source="user.username")
    title = serializers.CharField()
    kind = serializers.ChoiceField(Reservation.Kind.values)
    state = serializers.ChoiceField(Reservation.State.values)
    gpus = serializers.IntegerField()
    nodes = serializers.IntegerField(help_text="0: these nodes or cards were named.")
    gpu_model = serializers.CharField()
    start = serializers.DateTimeField(source="start_at")
    end = serializers.DateTimeField(source="end_at")
    extendable_until = serializers.SerializerMethodField(
        help_text="When the next booking of its cards begins; null: none follows."
    )
    used_at = serializers.DateTimeField(allow_null=True)
    trouble = serializers.CharField(help_text="What became of a card of it; empty: nothing.")
    cards = BookedCardSerializer(many=True)

    def get_team(self, row: Reservation) -> str | None:
        return row.team.name if row.team else None

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_extendable_until(self, row: Reservation) -> datetime | None:
        follows: dict[int, datetime] = self.context["follows"]
        return follows.get(row.pk)


class BusySerializer(serializers.Serializer[Any]):
    """Cards of one node that are somebody's; whose is not said."""

    node = serializers.CharField()
    gpus = serializers.ListField(child=serializers.IntegerField(), help_text="Indexes there.")
    kind = serializers.ChoiceField(Reservation.Kind.values)
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


class ReservationsSerializer(serializers.Serializer[Any]):
    """The reader's bookings of a window, and when which cards are busy for whomever."""

    results = ReservationSerializer(many=True)
    busy = BusySerializer(many=True)


class NextFreeSerializer(serializers.Serializer[Any]):
    """The first slot that would be taken now; null: there is none."""

    start = serializers.DateTimeField(allow_null=True)
    end = serializers.DateTimeField(allow_null=True)
    gpus = serializers.IntegerField()
