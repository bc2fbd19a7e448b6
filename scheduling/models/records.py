"""What is only ever added: the job's log, the audit log; and the two rows that order writers."""

from django.conf import settings
from django.db import models


class JobLog(models.Model):
    """One event of one job. A job's state is what its log adds up to."""

    job = models.ForeignKey("scheduling.Job", on_delete=models.PROTECT, related_name="log")
    at = models.DateTimeField()
    event = models.CharField(max_length=16)
    from_state = models.CharField(max_length=16, blank=True)
    to_state = models.CharField(max_length=16)
    attempt = models.PositiveIntegerField(null=True)
    actor = models.CharField(max_length=150)
    note = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.from_state} {self.event} {self.to_state}"


class AuditEntry(models.Model):
    """What a person did, and what the system did to a person's work, with its reason."""

    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    verb = models.CharField(max_length=40)
    subject = models.CharField(max_length=120, help_text="Kind and id, such as job 17.")
    team = models.ForeignKey(
        "scheduling.Team", on_delete=models.PROTECT, null=True, related_name="+"
    )
    reason = models.TextField(blank=True)
    facts = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["subject", "-id"], name="audit_of_subject")]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.subject}"


class Ledger(models.Model):
    """One row: how often a claim was written. Bumped under the ledger lock."""

    version = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"ledger at {self.version}"


class ControlLease(models.Model):
    """One row: which worker runs the cycle now. ``token`` fences every commit."""

    token = models.PositiveBigIntegerField(default=0)
    holder = models.CharField(max_length=64, blank=True)
    expires_at = models.DateTimeField(null=True)
    last_began_at = models.DateTimeField(null=True)
    last_took_ms = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"lease {self.token} of {self.holder}"


class Freeze(models.Model):
    """While a row is not lifted, nothing is placed, evicted, started or signalled."""

    frozen_at = models.DateTimeField()
    frozen_by = models.CharField(max_length=150)
    reason = models.TextField()
    lifted_at = models.DateTimeField(null=True)
    lifted_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                models.Value(1),
                condition=models.Q(lifted_at__isnull=True),
                name="one_freeze_at_once",
            )
        ]

    def __str__(self) -> str:
        return f"freeze since {self.frozen_at} by {self.frozen_by}"


class UnknownRun(models.Model):
    """A live run on a node that no part knows: it occupies its cards until it is gone."""

    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="+")
    run_id = models.CharField(max_length=64)
    cards = models.JSONField(default=list, help_text="UUIDs of the cards in its order.")
    first_heard_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "run_id"], name="one_row_per_unknown_run")
        ]

    def __str__(self) -> str:
        return f"unknown run {self.run_id} on {self.node_id}"
