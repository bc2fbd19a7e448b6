"""Shapes of jobs: a job in a list, a job in full, its attempts.

Wants jobs as ``scheduling.queries`` gives them (attempts, parts and leases prefetched): rendering
adds no query.
"""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling import advice, reasons
from scheduling.models import Attempt, Job, Lease, Part
from scheduling.states import WAITING, JobState

from .next_steps import next_step_of
from .shapes_orders import AfterSerializer, CheckpointSerializer
from .shapes_places import ParallelismSerializer, topology_shape

_STATES = [state.value for state in JobState]


class ReasonSerializer(serializers.Serializer[Any]):
    """Why a job waits: for programs and for people."""

    code = serializers.CharField()
    numbers = serializers.DictField()
    sentence = serializers.CharField()


class AdviceSerializer(serializers.Serializer[advice.Advice]):
    """Does its window fit, what would a preemption cost: for programs and for people."""

    code = serializers.CharField()
    numbers = serializers.DictField(child=serializers.IntegerField())
    sentence = serializers.CharField()


class GrantedGpuSerializer(serializers.Serializer[Lease]):
    uuid = serializers.CharField(source="card.gpu.uuid")
    index = serializers.IntegerField(source="card.gpu.index")
    model = serializers.CharField(source="card.gpu.model")


class PlacementSerializer(serializers.Serializer[Part]):
    """The share of a job that is on one node."""

    node = serializers.CharField(source="node.name")
    first_rank = serializers.IntegerField()
    ranks = serializers.IntegerField()
    gpus = GrantedGpuSerializer(source="leases", many=True)


class PartSerializer(PlacementSerializer):
    """And how it went there."""

    started_at = serializers.DateTimeField(allow_null=True)
    gone_at = serializers.DateTimeField(allow_null=True)
    ran_s = serializers.FloatField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    exit_signal = serializers.IntegerField(allow_null=True)
    log_bytes = serializers.DictField(
        source="log_size", child=serializers.IntegerField(), help_text="By rank."
    )


class AttemptSerializer(serializers.Serializer[Attempt]):
    """One run of a job. Empty texts: not so far."""

    number = serializers.IntegerField()
    topology_degraded = serializers.CharField(
        help_text="The level its cards reach (any: none) if a nearer one was preferred."
    )
    run_id = serializers.CharField()
    outcome = serializers.ChoiceField(["", *Attempt.Outcome.values])
    stop_reason = serializers.CharField()
    stop_note = serializers.CharField(help_text="For whom or what it was asked to leave.")
    stop_asked_at = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField()
    stop_by_job = serializers.IntegerField(
        source="stop_by_job_id", allow_null=True, help_text="The job it had to make way for."
    )
    restarts = serializers.IntegerField(help_text="Attempts of the job that ran before.")
    resumed_step = serializers.IntegerField(allow_null=True, help_text="Where it went on from.")
    saved_step = serializers.IntegerField(
        allow_null=True, help_text="Of its last complete checkpoint."
    )
    saved_path = serializers.CharField()
    saved_at = serializers.DateTimeField(allow_null=True)
    lost_gpu_s = serializers.IntegerField(
        allow_null=True, help_text="GPUs × seconds from that checkpoint to the end."
    )
    placed_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    parts = PartSerializer(many=True)


class AttemptsSerializer(serializers.Serializer[Any]):
    results = AttemptSerializer(many=True)


class ExplainSerializer(serializers.Serializer[Job]):
    """Why the job is where it is."""

    id = serializers.IntegerField()
    state = serializers.ChoiceField(_STATES)
    position = serializers.IntegerField(allow_null=True, help_text="In its queue, from 1.")
    reasons = serializers.SerializerMethodField()
    start_from = serializers.DateTimeField(
        allow_null=True, help_text="Predicted: not before, by the limits of those that run."
    )
    start_by = serializers.DateTimeField(
        allow_null=True, help_text="Predicted: by then, as the queue stands; null: nobody knows."
    )
    start_unsure = serializers.ChoiceField(
        ["", "unknown", "quota", "dependency", "never"], help_text="Why there is no start_by."
    )
    next_step = serializers.SerializerMethodField()

    @extend_schema_field(ReasonSerializer(many=True))
    def get_reasons(self, job: Job) -> list[dict[str, Any]]:
        return reasons.told(reasons.read(job)) if job.state in WAITING else []

    def get_next_step(self, job: Job) -> str:
        return next_step_of(job)


class JobSummarySerializer(ExplainSerializer):
    """A job in a list. ``done``: it is in a state that it never leaves."""

    name = serializers.CharField()
    team = serializers.CharField(source="team.name")
    user = serializers.CharField(source="user.username")
    pool = serializers.CharField(source="pool.name")
    priority = serializers.CharField(source="priority_class.name")
    gpus = serializers.IntegerField()
    nodes = serializers.IntegerField()
    gpu_model = serializers.CharField()
    done = serializers.BooleanField(source="is_done")
    submitted_at = serializers.DateTimeField()
    started_at = serializers.SerializerMethodField()
    ended_at = serializers.DateTimeField(allow_null=True)
    exit_code = serializers.SerializerMethodField()
    exit_signal = serializers.SerializerMethodField()
    attempt = serializers.SerializerMethodField(help_text="Number of the last one.")
    placement = serializers.SerializerMethodField()

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_started_at(self, job: Job) -> Any:
        last = _last(job)
        field = serializers.DateTimeField()
        return field.to_representation(last.started_at) if last and last.started_at else None

    def get_exit_code(self, job: Job) -> int | None:
        part = _telling(job)
        return part.exit_code if part else None

    def get_exit_signal(self, job: Job) -> int | None:
        part = _telling(job)
        return part.exit_signal if part else None

    def get_attempt(self, job: Job) -> int | None:
        last = _last(job)
        return last.number if last else None

    @extend_schema_field(PlacementSerializer(many=True))
    def get_placement(self, job: Job) -> Any:
        last = _last(job) if job.state not in WAITING else None
        return [PlacementSerializer(part).data for part in (last.parts.all() if last else ())]


class JobSerializer(JobSummarySerializer):
    """A job in full."""

    command = serializers.CharField()
    workdir = serializers.CharField()
    env = serializers.DictField(child=serializers.CharField())
    gpu_memory_gib = serializers.SerializerMethodField()
    gpu_memory_limit_gib = serializers.SerializerMethodField()
    gpu_capability = serializers.SerializerMethodField(help_text="Empty for any.")
    parallelism = serializers.SerializerMethodField()
    topology = serializers.SerializerMethodField()
    cpus = serializers.IntegerField(allow_null=True)
    memory_gib = serializers.SerializerMethodField()
    disk_gib = serializers.IntegerField()
    labels = serializers.DictField(child=serializers.CharField())
    launch = serializers.ChoiceField(Job.Launch.values)
    device_ids = serializers.ChoiceField(Job.DeviceIds.values)
    time_limit_s = serializers.IntegerField()
    requeue = serializers.BooleanField()
    reservation = serializers.IntegerField(source="reservation_id", allow_null=True)
    begin_at = serializers.DateTimeField(allow_null=True)
    after = serializers.SerializerMethodField()
    checkpoint = serializers.SerializerMethodField()
    advice = serializers.SerializerMethodField()
    attempts = AttemptSerializer(many=True)

    @extend_schema_field(AfterSerializer)
    def get_after(self, job: Job) -> dict[str, Any]:
        return {"jobs": job.after, "end": "any" if job.after_any else "ok"}

    def get_gpu_memory_gib(self, job: Job) -> float:
        return job.gpu_memory_mib / 1024

    def get_gpu_memory_limit_gib(self, job: Job) -> float | None:
        limit_mib = job.gpu_memory_limit_mib
        return None if limit_mib is None else limit_mib / 1024

    def get_gpu_capability(self, job: Job) -> str:
        return f"{job.gpu_capability / 10:.1f}" if job.gpu_capability else ""

    @extend_schema_field(ParallelismSerializer(allow_null=True))
    def get_parallelism(self, job: Job) -> dict[str, int] | None:
        return job.parallelism or None

    @extend_schema_field(topology_shape(allow_null=True))
    def get_topology(self, job: Job) -> dict[str, str] | None:
        strength = "required" if job.topology_required else "preferred"
        return {strength: job.topology_level} if job.topology_level else None

    def get_memory_gib(self, job: Job) -> float | None:
        return None if job.memory_mib is None else job.memory_mib / 1024

    @extend_schema_field(AdviceSerializer(many=True))
    def get_advice(self, job: Job) -> Any:
        found = [] if job.is_done else advice.of(job)
        return [AdviceSerializer(one).data for one in found]

    @extend_schema_field(CheckpointSerializer)
    def get_checkpoint(self, job: Job) -> dict[str, Any]:
        told = {"signal": job.stop_signal, "grace_s": job.grace_s}
        if job.signal_to != Job.SignalTo.GROUP:
            told["to"] = job.signal_to
        if job.checkpoint_interval_s is not None:
            told["interval_s"] = job.checkpoint_interval_s
        return told


class JobsSerializer(serializers.Serializer[Any]):
    """A page, newest first; ``next_cursor`` null means the last one."""

    results = JobSummarySerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


def _last(job: Job) -> Attempt | None:
    return max(job.attempts.all(), key=lambda attempt: attempt.number, default=None)


def _telling(job: Job) -> Part | None:
    """The part of an ended job that tells how it ended: the first that failed, else the first."""
    last = _last(job) if job.is_done else None
    parts = list(last.parts.all()) if last else []
    failed = (p for p in parts if p.failed_rank is not None or p.exit_code or p.exit_signal)
    return next(failed, parts[0] if parts else None)
