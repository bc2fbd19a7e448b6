"""What was asked (Job), each run of it (Attempt), its share of one node (Part), and its log."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from scheduling.states import DONE, JobState, StopReason


class Job(models.Model):
    """A user's unit of work. The id is stable over attempts; ``state`` has one writer."""

    class Launch(models.TextChoices):
        PER_NODE = "per_node"
        PER_GPU = "per_gpu"

    class DeviceIds(models.TextChoices):
        UUID = "uuid"
        INDEX = "index"

    class SignalTo(models.TextChoices):
        GROUP = "group"
        RANK0 = "rank0"

    team = models.ForeignKey("scheduling.Team", on_delete=models.PROTECT, related_name="jobs")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs"
    )
    pool = models.ForeignKey("scheduling.Pool", on_delete=models.PROTECT, related_name="jobs")
    priority_class = models.ForeignKey(
        "scheduling.PriorityClass", on_delete=models.PROTECT, related_name="+"
    )
    reservation = models.ForeignKey(
        "scheduling.Reservation",
        on_delete=models.PROTECT,
        null=True,
        related_name="jobs",
        help_text="The slot it runs in; none for the ordinary queue.",
    )
    name = models.CharField(max_length=200, blank=True)
    command = models.TextField()
    workdir = models.CharField(max_length=4096, blank=True)
    env = models.JSONField(default=dict)
    gpus = models.PositiveIntegerField()
    nodes = models.PositiveIntegerField(default=1)
    gpu_model = models.CharField(max_length=96, blank=True)
    gpu_memory_mib = models.PositiveIntegerField(default=0)
    gpu_memory_limit_mib = models.PositiveIntegerField(null=True)
    gpu_capability = models.PositiveSmallIntegerField(default=0, help_text="Ten times: 80 is 8.0.")
    parallelism = models.JSONField(default=dict, help_text="tp, pp and dp; empty: not said.")
    topology_level = models.CharField(max_length=8, blank=True)
    topology_required = models.BooleanField(default=False)
    cpus = models.PositiveIntegerField(null=True)
    memory_mib = models.PositiveIntegerField(null=True)
    disk_gib = models.PositiveIntegerField(default=0)
    labels = models.JSONField(default=dict)
    launch = models.CharField(max_length=8, choices=Launch, default=Launch.PER_NODE)
    device_ids = models.CharField(max_length=5, choices=DeviceIds, default=DeviceIds.UUID)
    time_limit_s = models.PositiveIntegerField()
    grace_s = models.PositiveIntegerField(default=60)
    stop_signal = models.CharField(max_length=12, default="TERM")
    signal_to = models.CharField(max_length=5, choices=SignalTo, default=SignalTo.GROUP)
    checkpoint_interval_s = models.PositiveIntegerField(null=True)
    requeue = models.BooleanField(default=True)

    state = models.CharField(
        max_length=16, choices=[(s.value, s.value) for s in JobState], default=JobState.PENDING
    )
    reasons = models.JSONField(default=list, help_text="Why it waits: codes with numbers.")
    position = models.PositiveIntegerField(null=True)
    start_from = models.DateTimeField(null=True, help_text="Predicted: not before, by limits.")
    start_by = models.DateTimeField(null=True, help_text="Predicted: by then, as things stand.")
    start_unsure = models.CharField(max_length=16, blank=True, help_text="Why no end is told.")
    begin_at = models.DateTimeField(null=True, help_text="Not to be started before.")
    after = models.JSONField(default=list, help_text="Ids of jobs that have to end before.")
    after_any = models.BooleanField(default=False, help_text="However they end; else well.")
    submitted_at = models.DateTimeField()
    eligible_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["pool", "submitted_at"],
                name="jobs_waiting",
                condition=Q(state=JobState.PENDING),
            ),
            models.Index(fields=["state", "id"], name="jobs_by_state"),
            models.Index(fields=["team", "-id"], name="jobs_of_team"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(gpus__gte=1, nodes__gte=1), name="job_asks_a_gpu"),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in JobState]), name="job_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(state__in=DONE, ended_at__isnull=False)
                | (~Q(state__in=DONE) & Q(ended_at__isnull=True)),
                name="a_done_job_has_an_end",
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.pk} {self.name}".strip()

    @property
    def is_done(self) -> bool:
        return self.state in DONE


class Attempt(models.Model):
    """One run of a job. ``goal`` says what follows: the end, or again."""

    class Goal(models.TextChoices):
        END = "end"
        AGAIN = "again"

    class Outcome(models.TextChoices):
        COMPLETED = "completed"
        FAILED = "failed"
        OUT_OF_MEMORY = "out_of_memory"
        TIME_LIMIT = "time_limit"
        CANCELLED = "cancelled"
        WITHDRAWN = "withdrawn"
        LAUNCH_FAILED = "launch_failed"
        NODE_LOST = "node_lost"
        UNSUPERVISED = "unsupervised"
        DRAINED = "drained"
        PREEMPTED = "preempted"
        RECLAIMED = "reclaimed"
        CARD_FAILED = "card_failed"
        CONTENTION = "contention"

    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="attempts")
    number = models.PositiveIntegerField()
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    goal = models.CharField(max_length=5, choices=Goal, default=Goal.END)
    stop_reason = models.CharField(
        max_length=16, choices=[(r.value, r.value) for r in StopReason], blank=True
    )
    stop_note = models.TextField(blank=True)
    stop_by_job = models.ForeignKey(
        Job, on_delete=models.PROTECT, null=True, related_name="+", help_text="For whom it left."
    )
    restarts = models.PositiveIntegerField(default=0, help_text="Attempts that ran before it.")
    resumed_step = models.BigIntegerField(null=True)
    resumed_path = models.TextField(blank=True)
    saved_step = models.BigIntegerField(null=True, help_text="Of its last complete checkpoint.")
    saved_path = models.TextField(blank=True)
    saved_at = models.DateTimeField(null=True)
    saved_s = models.FloatField(null=True, help_text="Seconds from its start to that checkpoint.")
    lost_gpu_s = models.PositiveBigIntegerField(null=True, help_text="GPU-seconds not saved.")
    outcome = models.CharField(max_length=16, choices=Outcome, blank=True)
    note = models.TextField(blank=True)
    placed_at = models.DateTimeField()
    began_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    stop_asked_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    topology_degraded = models.CharField(
        max_length=8, blank=True, help_text="The level it reached, if one nearer was preferred."
    )
    phases = models.JSONField(default=dict, help_text="Seconds of prepare, pull, stage, init.")

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="attempts_are_numbered"),
            models.UniqueConstraint(
                fields=["job"], condition=Q(ended_at__isnull=True), name="one_live_attempt_per_job"
            ),
        ]

    def __str__(self) -> str:
        return self.run_id

    @property
    def run_id(self) -> str:
        """The name both sides know the run by; new for every placement, never used again."""
        return f"{self.job_id}-{self.number}-{self.uuid.hex[:8]}"


class Part(models.Model):
    """An attempt on one node. Live until the node said that its processes are gone."""

    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="parts")
    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="+")
    node_rank = models.PositiveIntegerField(default=0)
    first_rank = models.PositiveIntegerField(default=0)
    ranks = models.PositiveIntegerField()
    cpus = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    disk_gib = models.PositiveIntegerField(default=0)
    port = models.PositiveIntegerField()
    boot_id = models.CharField(max_length=64, blank=True)
    prepared_at = models.DateTimeField(null=True)
    go_sent_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    stop_sent_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    seq = models.PositiveIntegerField(default=0)
    end = models.CharField(max_length=16, blank=True)
    exit_code = models.IntegerField(null=True)
    exit_signal = models.IntegerField(null=True)
    failed_rank = models.PositiveIntegerField(null=True)
    exit_before_term = models.BooleanField(default=False)
    oom = models.BooleanField(default=False)
    ran_s = models.FloatField(null=True)
    asked_s = models.FloatField(null=True, help_text="Seconds from its start to the first signal.")
    progress = models.JSONField(default=dict, help_text="What the job told of itself, as reported.")
    log_size = models.JSONField(default=dict, help_text="Bytes written so far, by rank.")
    refusal = models.JSONField(null=True)
    accounted = models.BooleanField(default=False, help_text="All that it used is written down.")
    accounted_until = models.DateTimeField(null=True)

    class Meta:
        ordering = ["node_rank"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "node"], name="one_part_per_node"),
            models.UniqueConstraint(
                fields=["node", "port"],
                condition=Q(gone_at__isnull=True),
                name="one_live_part_per_port",
            ),
        ]
        indexes = [
            models.Index(fields=["node"], name="live_parts", condition=Q(settled_at__isnull=True)),
            models.Index(fields=["id"], name="parts_to_account", condition=Q(accounted=False)),
        ]

    def __str__(self) -> str:
        return f"{self.attempt} on {self.node}"


class LogPiece(models.Model):
    """The kept head (<= 64 KiB) or tail (<= 1 MiB) of one rank's log, as bytes with its offset."""

    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="log_pieces")
    rank = models.PositiveIntegerField()
    offset = models.PositiveBigIntegerField()
    data = models.BinaryField()

    class Meta:
        ordering = ["offset"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "rank", "offset"], name="one_piece_at_once")
        ]

    def __str__(self) -> str:
        return f"{self.attempt} rank {self.rank} from byte {self.offset}"


class ExcludedNode(models.Model):
    """A node left out for one job until a time, because it refused it."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="excluded")
    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="+")
    until = models.DateTimeField()
    refusal = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "node"], name="one_exclusion_per_node")
        ]

    def __str__(self) -> str:
        return f"{self.job} not on {self.node}"
