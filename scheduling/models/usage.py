"""What teams used: entries that are only ever added, and the two sums that everybody reads.

``scheduling.usage`` is the only writer, of all three in one transaction: a sum is what its entries
add up to. Unit: milli-GPU-seconds, whole numbers.
"""

from django.conf import settings
from django.db import models


class UsageEntry(models.Model):
    """What one part of an attempt was charged over [from_at, until_at), on cards of one model."""

    class Kind(models.TextChoices):
        USE = "use"
        IDLE_RESERVED = "idle_reserved"
        CREDIT = "credit"
        PENALTY = "penalty"

    team = models.ForeignKey("scheduling.Team", on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    job = models.ForeignKey(
        "scheduling.Job", on_delete=models.PROTECT, null=True, related_name="usage"
    )
    part = models.ForeignKey(
        "scheduling.Part", on_delete=models.PROTECT, null=True, related_name="usage"
    )
    gpu_model = models.CharField(max_length=96, blank=True)
    kind = models.CharField(max_length=13, choices=Kind, default=Kind.USE)
    milli_s = models.BigIntegerField(help_text="Milli-GPU-seconds; a credit is below zero.")
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["team", "until_at"], name="usage_of_team")]
        constraints = [
            models.UniqueConstraint(
                fields=["part", "from_at"],
                condition=models.Q(kind="use"),
                name="a_moment_is_charged_once",
            ),
            models.UniqueConstraint(
                fields=["part"],
                condition=models.Q(kind="credit"),
                name="a_part_is_credited_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.team}: {self.milli_s} milli-GPU-s"


class UsageSum(models.Model):
    """What a user of a team was charged for one model in one month (UTC)."""

    team = models.ForeignKey("scheduling.Team", on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    gpu_model = models.CharField(max_length=96, blank=True)
    month = models.DateField(help_text="Its first day.")
    milli_s = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["month", "team", "user", "gpu_model"],
                name="one_sum_a_month",
            )
        ]

    def __str__(self) -> str:
        return f"{self.team} {self.month:%Y-%m}: {self.milli_s} milli-GPU-s"


class RecentUse(models.Model):
    """What a user of a team used, older use counting less: as of ``as_of``, for the fair order."""

    team = models.ForeignKey("scheduling.Team", on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    milli_s = models.BigIntegerField(default=0)
    as_of = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="one_recent_use_each")]

    def __str__(self) -> str:
        return f"{self.team}, {self.user}: {self.milli_s} milli-GPU-s"
