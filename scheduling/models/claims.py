"""The capacity ledger: what can claim a card, and the promises that PostgreSQL keeps about it.

One exclusive lease per card, one lease per slice, a card in one mode at a time, shares within
memory and share limit: constraints below, not care above. Counters on Card change in the
transaction of the lease (``scheduling.leases`` is the only writer of both).
"""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import F, Q


class Card(models.Model):
    """What the ledger counts on: one per Gpu. Units: milli-GPU and MiB."""

    gpu = models.OneToOneField("nodes.Gpu", on_delete=models.PROTECT, related_name="card")
    memory_mib = models.PositiveIntegerField(help_text="Capacity less the reserve.")
    share_limit_milli = models.PositiveIntegerField(default=1000)
    held_milli = models.PositiveIntegerField(default=0)
    held_mib = models.PositiveIntegerField(default=0)
    version = models.PositiveIntegerField(default=0)
    quarantined_at = models.DateTimeField(null=True, blank=True)
    quarantine_note = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(held_milli__lte=F("share_limit_milli")),
                name="shares_within_the_limit",
            ),
            models.CheckConstraint(
                condition=Q(held_mib__lte=F("memory_mib")), name="shares_within_the_memory"
            ),
        ]

    def __str__(self) -> str:
        return f"card of {self.gpu}"


class Lease(models.Model):
    """A card, a share of one or a slice, held by a Part until the node said it is clean.

    ``held`` while the run may have processes, ``releasing`` while the card is being checked,
    then ``freed``; what does not get clean is ``quarantined`` (live, charged to nobody).
    """

    class Mode(models.TextChoices):
        EXCLUSIVE = "exclusive"
        SHARED = "shared"
        MIG = "mig"

    class State(models.TextChoices):
        HELD = "held"
        RELEASING = "releasing"
        QUARANTINED = "quarantined"
        FREED = "freed"

    part = models.ForeignKey("scheduling.Part", on_delete=models.PROTECT, related_name="leases")
    card = models.ForeignKey(Card, on_delete=models.PROTECT, related_name="leases")
    unit = models.CharField(max_length=96, blank=True, help_text="UUID of a slice, else empty.")
    mode = models.CharField(max_length=9, choices=Mode, default=Mode.EXCLUSIVE)
    milli = models.PositiveIntegerField(default=1000)
    mib = models.PositiveIntegerField(default=0)
    state = models.CharField(max_length=11, choices=State, default=State.HELD)
    taken_at = models.DateTimeField()
    releasing_at = models.DateTimeField(null=True)
    freed_at = models.DateTimeField(null=True)
    note = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["card"],
                condition=Q(mode="exclusive", freed_at__isnull=True),
                name="one_live_exclusive_lease_per_card",
            ),
            models.UniqueConstraint(
                fields=["unit"],
                condition=Q(mode="mig", freed_at__isnull=True),
                name="one_live_lease_per_slice",
            ),
            ExclusionConstraint(
                name="a_card_is_in_one_mode",
                expressions=[("card", RangeOperators.EQUAL), ("mode", RangeOperators.NOT_EQUAL)],
                condition=Q(freed_at__isnull=True),
            ),
            models.CheckConstraint(
                condition=Q(state="freed", freed_at__isnull=False)
                | (~Q(state="freed") & Q(freed_at__isnull=True)),
                name="freed_means_freed_at",
            ),
        ]
        indexes = [
            models.Index(fields=["part"], name="live_leases", condition=Q(freed_at__isnull=True))
        ]

    def __str__(self) -> str:
        return f"{self.card} for {self.part}"


class Pledge(models.Model):
    """Cards promised to a waiting job while those who hold them leave; live until ``ended_at``.

    Only writer: ``scheduling.pledges``. It counts for nobody's use; the engine charges it to its
    job's team while it lasts.
    """

    job = models.ForeignKey("scheduling.Job", on_delete=models.PROTECT, related_name="pledges")
    gpu_model = models.CharField(max_length=96)
    made_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    why_ended = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job"], condition=Q(ended_at__isnull=True), name="one_live_pledge_per_job"
            )
        ]

    def __str__(self) -> str:
        return f"pledge {self.pk} to job {self.job_id}"


class PledgePart(models.Model):
    """What a pledge takes of one node, beside its cards."""

    pledge = models.ForeignKey(Pledge, on_delete=models.PROTECT, related_name="parts")
    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="+")
    cpus = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    disk_gib = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pledge", "node"], name="one_pledged_part_per_node")
        ]

    def __str__(self) -> str:
        return f"{self.pledge} on {self.node}"


class PledgeCard(models.Model):
    """One card of a pledge. ``ended_at`` is its pledge's, so that the constraint sees it."""

    part = models.ForeignKey(PledgePart, on_delete=models.PROTECT, related_name="cards")
    card = models.ForeignKey(Card, on_delete=models.PROTECT, related_name="pledges")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["card"], condition=Q(ended_at__isnull=True), name="one_live_pledge_per_card"
            )
        ]

    def __str__(self) -> str:
        return f"{self.card} for {self.part}"
