"""Shapes of what is sent about jobs: the order, and why something is done to one.

For the schema; orders are read by ``scheduling.orders.parse``.
"""

from typing import Any

from rest_framework import serializers

from scheduling.models import Job
from scheduling.order_fields import RECEIVERS, SIGNALS

from .shapes_places import ParallelismSerializer, topology_shape


class CheckpointSerializer(serializers.Serializer[Any]):
    """How the job is asked to leave, and how long it then has."""

    signal = serializers.ChoiceField(list(SIGNALS), required=False)
    to = serializers.ChoiceField(
        list(RECEIVERS), required=False, help_text="Every process group, or rank 0 alone."
    )
    grace_s = serializers.IntegerField(required=False, min_value=1)
    interval_s = serializers.IntegerField(
        required=False, min_value=1, allow_null=True, help_text="How often it saves by itself."
    )


class AfterSerializer(serializers.Serializer[Any]):
    """Jobs to follow: ``end`` ok, they have to be COMPLETED; any, however they end."""

    jobs = serializers.ListField(child=serializers.IntegerField(min_value=1), max_length=100)
    end = serializers.ChoiceField(["ok", "any"], required=False, default="ok")


class JobOrderSerializer(serializers.Serializer[Any]):
    """A job as sent. Described here, read by ``scheduling.orders.parse``."""

    team = serializers.CharField(max_length=63)
    command = serializers.CharField(help_text="At most 256 KiB; a #! line decides, else /bin/sh.")
    gpus = serializers.IntegerField(min_value=1, help_text="In all; divisible by nodes.")
    pool = serializers.CharField(required=False, max_length=63)
    name = serializers.CharField(required=False, max_length=200, allow_blank=True)
    workdir = serializers.CharField(required=False, max_length=4096, allow_null=True)
    env = serializers.DictField(child=serializers.CharField(allow_blank=True), required=False)
    nodes = serializers.IntegerField(
        required=False, min_value=1, help_text="As few as will do by default."
    )
    gpu_model = serializers.CharField(required=False, max_length=96, allow_null=True)
    gpu_memory_gib = serializers.FloatField(required=False, min_value=0, allow_null=True)
    gpu_memory_limit_gib = serializers.FloatField(required=False, min_value=0, allow_null=True)
    gpu_capability = serializers.CharField(
        required=False, allow_null=True, help_text="At least, such as 8.0."
    )
    cpus = serializers.IntegerField(required=False, min_value=1, allow_null=True)
    memory_gib = serializers.FloatField(required=False, min_value=0, allow_null=True)
    disk_gib = serializers.IntegerField(required=False, min_value=0)
    labels = serializers.DictField(child=serializers.CharField(), required=False)
    launch = serializers.ChoiceField(Job.Launch.values, required=False, default="per_node")
    device_ids = serializers.ChoiceField(Job.DeviceIds.values, required=False, default="uuid")
    time_limit = serializers.CharField(required=False, help_text="Seconds, or 90s, 45m, 2d12h.")
    priority = serializers.CharField(required=False, default="normal")
    requeue = serializers.BooleanField(required=False, default=True)
    begin_at = serializers.DateTimeField(required=False, allow_null=True)
    after = AfterSerializer(required=False, help_text="Or only the list of jobs.")
    reservation = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    checkpoint = CheckpointSerializer(required=False)
    parallelism = ParallelismSerializer(required=False, allow_null=True)
    topology = topology_shape(required=False, allow_null=True)


class ActSerializer(serializers.Serializer[Any]):
    """Why; kept in the audit log."""

    reason = serializers.CharField(required=False, max_length=500, allow_blank=True)
