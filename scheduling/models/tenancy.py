"""Who shares the machines: teams (a tree), members, quotas, priority classes, pools."""

from django.conf import settings
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models

SLUG = RegexValidator(
    r"^[a-z0-9][a-z0-9-]{0,62}$",
    "Use 1 to 63 lower-case letters, digits and hyphens, beginning with a letter or digit.",
)


class Team(models.Model):
    """A node of the tree that owns quota; jobs sit on leaves, a lead holds for the subtree."""

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    title = models.CharField(max_length=120, blank=True)
    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="children"
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(parent__isnull=True) | ~models.Q(parent=models.F("id")),
                name="no_team_is_its_own_parent",
            )
        ]

    def __str__(self) -> str:
        return self.name


class Member(models.Model):
    """A person in a team, as member or lead; ``unix_user`` is their account on the nodes."""

    class Role(models.TextChoices):
        MEMBER = "member"
        LEAD = "lead"

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="members")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="memberships"
    )
    role = models.CharField(max_length=8, choices=Role, default=Role.MEMBER)
    unix_user = models.CharField(max_length=32, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "user"], name="one_membership_per_team")
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}"


class Quota(models.Model):
    """What a team may hold of one GPU model; an empty model means all models together.

    Units: milli-GPU, CPUs, MiB, GPU-hours a month. The limit is nominal + borrowing_limit;
    no borrowing_limit means no limit above nominal. No row at all: no limit at this level.
    """

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="quotas")
    gpu_model = models.CharField(max_length=96, blank=True)
    nominal_milli = models.PositiveIntegerField(default=0)
    borrowing_limit_milli = models.PositiveIntegerField(null=True, blank=True)
    lending_limit_milli = models.PositiveIntegerField(null=True, blank=True)
    weight = models.PositiveIntegerField(default=1)
    user_milli = models.PositiveIntegerField(
        null=True, blank=True, help_text="The most one person of the team may hold of it."
    )
    cpus = models.PositiveIntegerField(null=True, blank=True)
    memory_mib = models.PositiveIntegerField(null=True, blank=True)
    gpu_hours_a_month = models.PositiveIntegerField(null=True, blank=True)
    budget_is_hard = models.BooleanField(
        default=False, help_text="Beyond it nothing starts; else its jobs go after others'."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "gpu_model"], name="one_quota_per_model")
        ]

    def __str__(self) -> str:
        return f"{self.team}: {self.nominal_milli / 1000:g} × {self.gpu_model or 'GPU'}"

    @property
    def limit_milli(self) -> int | None:
        """The most the team may hold, or None for no limit."""
        if self.borrowing_limit_milli is None:
            return None
        return self.nominal_milli + self.borrowing_limit_milli


class Loan(models.Model):
    """A dated transfer of nominal from one leaf team to another: [from_at, until_at)."""

    lender = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="loans_given")
    borrower = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="loans_taken")
    gpu_model = models.CharField(max_length=96, blank=True)
    milli = models.PositiveIntegerField(help_text="Thousandths of a GPU.")
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    reason = models.CharField(max_length=500, blank=True)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    made_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True, help_text="Given back before its time.")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(until_at__gt=models.F("from_at")),
                name="a_loan_ends_after_it_began",
            ),
            models.CheckConstraint(
                condition=~models.Q(lender=models.F("borrower")), name="nobody_lends_to_themselves"
            ),
        ]

    def __str__(self) -> str:
        return (
            f"{self.milli / 1000:g} × {self.gpu_model or 'GPU'}, {self.lender} to {self.borrower}"
        )


class PriorityClass(models.Model):
    """How urgent a job says it is, and what that costs it and others."""

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    value = models.IntegerField(help_text="Larger goes first.")
    may_preempt = models.BooleanField(default=False)
    preemptible = models.BooleanField(default=False)
    min_runtime_s = models.PositiveIntegerField(default=600)
    grace_s = models.PositiveIntegerField(default=60)

    class Meta:
        ordering = ["-value"]

    def __str__(self) -> str:
        return self.name


class Pool(models.Model):
    """A set of nodes with rules of its own; a node is in exactly one."""

    class Strategy(models.TextChoices):
        STRICT_FIFO = "strict_fifo"
        BACKFILL = "backfill"

    class NodeLoss(models.TextChoices):
        HOLD = "hold"
        SELF_FENCE = "self_fence"
        RESTART_ANYWAY = "restart_anyway"

    class Access(models.TextChoices):
        PROCESS = "process"
        ACCOUNT = "account"
        SANDBOX = "sandbox"
        CONTAINER = "container"

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    strategy = models.CharField(max_length=12, choices=Strategy, default=Strategy.BACKFILL)
    backfill_depth = models.SmallIntegerField(
        default=1,
        validators=[MinValueValidator(-1)],
        help_text="For how many waiting jobs room is kept ahead: 0 none, -1 all.",
    )
    topology_wait_s = models.PositiveIntegerField(
        default=120, help_text="So long a job waits for each level nearer than it can have."
    )
    default_time_limit_s = models.PositiveIntegerField(default=24 * 3600)
    max_time_limit_s = models.PositiveIntegerField(default=7 * 24 * 3600)
    min_grace_s = models.PositiveIntegerField(default=5)
    max_grace_s = models.PositiveIntegerField(default=600)
    node_loss = models.CharField(max_length=16, choices=NodeLoss, default=NodeLoss.HOLD)
    access = models.CharField(max_length=12, choices=Access, default=Access.PROCESS)
    log_max_mib = models.PositiveIntegerField(default=1024)
    port_first = models.PositiveIntegerField(default=29400)
    port_last = models.PositiveIntegerField(default=31399)
    max_victims = models.PositiveIntegerField(
        default=8, help_text="Most running jobs that are stopped for one job at once."
    )
    max_evicted_percent = models.PositiveIntegerField(
        default=800, help_text="Most GPUs that are taken from others, in percent of those asked."
    )
    eviction_cooldown_s = models.PositiveIntegerField(
        default=300, help_text="So long a job is left alone after it was stopped for another."
    )
    max_evictions = models.PositiveIntegerField(
        default=10, help_text="After so many a job is stopped for others no more; 0: no end."
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PoolNode(models.Model):
    """Which pool a node is in."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="members")
    node = models.OneToOneField("nodes.Node", on_delete=models.PROTECT, related_name="pool_node")

    def __str__(self) -> str:
        return f"{self.node} in {self.pool}"
