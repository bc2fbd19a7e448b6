"""Machines, their cards, and what was heard from them.

Written by the probe, the enrolment and the channel's reader; read by the floors above. Nothing
here knows a job: a run is a name (``run_id``) that the floor above gave out.
"""

import uuid

from django.db import models


class Node(models.Model):
    """A machine with GPUs, reached over SSH under a pinned host key.

    ``boot_id``, ``liveness`` and ``seen_at`` are what the last looks said; ``accepts_work`` is
    the operator's switch; ``alarm`` is set when all traffic is stopped (a changed host key, an
    owner other than this portal) and says why.
    """

    class Liveness(models.TextChoices):
        UP = "up"
        SUSPECT = "suspect"
        LOST = "lost"

    class Health(models.TextChoices):
        OK = "ok"
        WATCH = "watch"
        DEGRADED = "degraded"
        FAILED = "failed"

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(max_length=63, unique=True)
    address = models.CharField(max_length=255)
    port = models.PositiveIntegerField(default=22)
    account = models.CharField(max_length=63, default="gangway")
    host_key = models.TextField(help_text="Pinned: type and base64, as in known_hosts.")
    private_key = models.TextField(help_text="Encrypted; readable with GANGWAY_SECRET_KEYS only.")
    public_key = models.TextField()
    root = models.CharField(max_length=1024, blank=True)
    nvml_module = models.CharField(max_length=1024, blank=True)
    nvml_library = models.CharField(max_length=1024, blank=True)

    labels = models.JSONField(default=dict, blank=True)
    rack = models.CharField(max_length=63, blank=True)
    block = models.CharField(max_length=63, blank=True)
    fabric_address = models.CharField(max_length=255, blank=True)

    cpus = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    disk_gib = models.PositiveIntegerField(default=0)
    facts = models.JSONField(default=dict, blank=True)

    accepts_work = models.BooleanField(default=True)
    liveness = models.CharField(max_length=8, choices=Liveness, default=Liveness.UP)
    health = models.CharField(max_length=8, choices=Health, default=Health.OK)
    boot_id = models.CharField(max_length=64, blank=True)
    seen_at = models.DateTimeField(null=True)
    probed_at = models.DateTimeField(null=True)
    kernel_cursor = models.BigIntegerField(
        default=-1, help_text="The last line of this boot's kernel log that was read."
    )
    missed_looks = models.PositiveIntegerField(default=0)
    silence = models.TextField(blank=True, help_text="Why the last look got no answer.")
    alarm = models.TextField(blank=True)
    enrolled_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def driver_silent(self) -> bool:
        """The last probe got no answer from the driver: what it knew of the cards is old."""
        return bool((self.facts or {}).get("nvml_error"))

    @staticmethod
    def driver_answers() -> models.Q:
        """The same as a condition on rows, turned round."""
        return models.Q(facts__nvml_error=None) | models.Q(facts__nvml_error__isnull=True)


# A node or card in one of these gets work.
WORKING = (Node.Health.OK, Node.Health.WATCH)


class Gpu(models.Model):
    """A card, known by its UUID; written by the probe, but for its island. A slice has a parent.

    ``health`` has one writer, ``nodes.conditions``; ``override`` is an operator's, until a date.
    """

    uuid = models.CharField(max_length=96, unique=True)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="gpus")
    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="slices"
    )
    index = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=96, help_text="Short, as quotas name it: H100.")
    product = models.CharField(max_length=96, blank=True, help_text="As the driver names it.")
    memory_mib = models.PositiveIntegerField()
    pci_bus_id = models.CharField(max_length=32, blank=True)
    compute_capability = models.CharField(max_length=8, blank=True)
    island = models.PositiveSmallIntegerField(
        default=0, help_text="Cards of one island of a node reach each other fastest."
    )
    health = models.CharField(max_length=8, choices=Node.Health, default=Node.Health.OK)
    present = models.BooleanField(default=True, help_text="Seen by the last probe.")
    used_mib = models.PositiveIntegerField(default=0)
    foreign_use = models.TextField(
        blank=True, help_text="Who from outside uses the card: user, pid, MiB. Empty: nobody."
    )
    facts = models.JSONField(default=dict, blank=True)
    seen_at = models.DateTimeField(null=True)
    conditions = models.JSONField(
        default=dict, blank=True, help_text="What each health rule remembers of the card."
    )
    health_rule = models.CharField(max_length=32, blank=True)
    health_evidence = models.TextField(blank=True)
    override = models.CharField(max_length=8, choices=Node.Health, blank=True)
    override_until = models.DateTimeField(null=True, blank=True)
    override_reason = models.TextField(blank=True)

    class Meta:
        ordering = ["node_id", "index"]

    def __str__(self) -> str:
        return f"{self.node_id}/{self.index} {self.model}"


class HealthChange(models.Model):
    """A verdict on a card that changed: by which rule, on what evidence, or by whom. Kept."""

    gpu = models.ForeignKey(Gpu, on_delete=models.PROTECT, related_name="health_changes")
    at = models.DateTimeField()
    was = models.CharField(max_length=8, choices=Node.Health)
    now = models.CharField(max_length=8, choices=Node.Health)
    rule = models.CharField(max_length=32, blank=True)
    evidence = models.TextField(blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    actor = models.CharField(max_length=150, blank=True, help_text="Empty: the rules.")

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["now", "at"], name="health_by_time")]

    def __str__(self) -> str:
        return f"{self.gpu}: {self.was} to {self.now}"


class HealthSample(models.Model):
    """What one probe of a node read, as it was judged: one row a probe, kept for a day.

    The table is partitioned by day, so that a day is dropped and not deleted row by row;
    ``nodes.samples`` makes and drops the partitions.
    """

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()
    boot_id = models.CharField(max_length=64, blank=True)
    cards = models.JSONField(help_text="Facts by UUID.")

    class Meta:
        indexes = [models.Index(fields=["node", "at"], name="samples_of_node")]

    def __str__(self) -> str:
        return f"{self.node_id} at {self.at}"


class RunReport(models.Model):
    """What a node said of a run, by look or by event: one row per (node, run, seq).

    The node counts ``seq`` up with each new fact, so hearing the same twice adds nothing.
    """

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="+")
    run_id = models.CharField(max_length=64)
    seq = models.PositiveIntegerField()
    body = models.JSONField()
    heard_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "run_id", "seq"], name="one_report_per_seq")
        ]
        indexes = [
            models.Index(
                fields=["id"], name="reports_not_taken", condition=models.Q(taken_at__isnull=True)
            )
        ]

    def __str__(self) -> str:
        return f"{self.run_id} #{self.seq}"


class Wake(models.Model):
    """Somebody wrote a fact that a placement cycle should look at; deleted by the cycle."""

    cause = models.CharField(max_length=63)
    made_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.cause
