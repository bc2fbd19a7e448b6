"""Bookings: cards promised to a team over [start, end), and the rules by which teams may book.

One Reservation, however many cards; its cards are rows of their own, because PostgreSQL keeps the
promise on them that no card is booked twice at a time. Written by ``scheduling.services`` and by
the clocks of ``scheduling.slots`` alone.
"""

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import F, Q


class Reservation(models.Model):
    """N cards over [start_at, end_at): asked by count, by node or by card.

    ``nodes`` N: ``gpus`` in equal parts on N nodes, chosen by the portal, which may swap one that
    fails. ``nodes`` 0: whole nodes or single cards were named, and no others will do.
    """

    class Kind(models.TextChoices):
        USE = "use"
        MAINTENANCE = "maintenance"

    class State(models.TextChoices):
        BOOKED = "booked"
        ACTIVE = "active"
        ENDED = "ended"
        CANCELLED = "cancelled"
        GIVEN_BACK = "given_back"
        NO_SHOW = "no_show"

    LIVE = (State.BOOKED, State.ACTIVE)

    team = models.ForeignKey(
        "scheduling.Team", on_delete=models.PROTECT, null=True, related_name="reservations"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="reservations"
    )
    title = models.CharField(max_length=120, blank=True)
    kind = models.CharField(max_length=11, choices=Kind, default=Kind.USE)
    state = models.CharField(max_length=10, choices=State, default=State.BOOKED)
    gpus = models.PositiveIntegerField()
    nodes = models.PositiveIntegerField(default=1)
    gpu_model = models.CharField(max_length=96, blank=True)
    gpu_memory_mib = models.PositiveIntegerField(default=0)
    on_nodes = models.JSONField(default=list, help_text="Names, if only those will do.")
    start_at = models.DateTimeField()
    end_at = models.DateTimeField()
    made_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, help_text="First seen in use in its slot.")
    closed_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=0)
    trouble = models.CharField(max_length=200, blank=True, help_text="What its holder must know.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(end_at__gt=F("start_at")), name="a_slot_ends_after_it_starts"
            ),
            models.CheckConstraint(
                condition=Q(team__isnull=False) | Q(kind="maintenance"), name="a_use_has_a_team"
            ),
        ]
        indexes = [
            models.Index(fields=["end_at", "start_at"], name="slots_by_time"),
            models.Index(
                fields=["state"],
                name="live_slots",
                condition=Q(state__in=["booked", "active"]),
            ),
        ]

    def __str__(self) -> str:
        return f"reservation {self.pk} {self.title}".strip()

    @property
    def live(self) -> bool:
        return self.state in self.LIVE


class ReservationCard(models.Model):
    """One card of a reservation. ``live`` until the reservation is over, in whatever way."""

    reservation = models.ForeignKey(Reservation, on_delete=models.PROTECT, related_name="cards")
    card = models.ForeignKey(
        "scheduling.Card", on_delete=models.PROTECT, related_name="reservations"
    )
    during = DateTimeRangeField()
    live = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["reservation", "card"], name="a_card_once_a_slot"),
            ExclusionConstraint(
                name="no_card_is_booked_twice",
                expressions=[("card", RangeOperators.EQUAL), ("during", RangeOperators.OVERLAPS)],
                condition=Q(live=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.card} for {self.reservation}"


class BookingRule(models.Model):
    """What a team and those below it may book; no team: everybody. None: no limit of that kind.

    The nearest row up the tree counts, alone. Seconds, numbers, GPU-hours in a week from Monday.
    """

    team = models.OneToOneField(
        "scheduling.Team", on_delete=models.PROTECT, null=True, blank=True, related_name="booking"
    )
    ahead_s = models.PositiveIntegerField(null=True, blank=True, default=60 * 86400)
    length_s = models.PositiveIntegerField(null=True, blank=True, default=14 * 86400)
    open_at_once = models.PositiveIntegerField(null=True, blank=True, default=50)
    gpu_hours_a_week = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team"], name="one_rule_for_everybody", nulls_distinct=False
            )
        ]

    def __str__(self) -> str:
        return f"booking rule of {self.team or 'everybody'}"
