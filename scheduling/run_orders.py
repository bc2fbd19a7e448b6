"""A Part as the order its node gets: what to run, on which cards, as which ranks."""

from typing import Any

from django.conf import settings

from .models import Attempt, Job, Part

FORMAT = 1


def build(part: Part, parts: list[Part], job: Job) -> dict[str, Any]:
    """The order of one part; ``parts`` are all of the attempt by node rank, leases prefetched."""
    head = parts[0]
    leased = [lease.card.gpu for lease in part.leases.all()]
    # Ranks follow the islands, so that a tensor-parallel group is on one.
    cards = sorted(leased, key=lambda gpu: (gpu.island, gpu.index))
    return {
        "format": FORMAT,
        "run": part.attempt.run_id,
        "instance": settings.GANGWAY_INSTANCE,
        "job": job.pk,
        "attempt": part.attempt.number,
        "name": job.name,
        "team": job.team.name,
        "user_name": job.user.get_username(),
        "command": job.command,
        "workdir": job.workdir or None,
        "env": {**job.env, **_said_of(job)},
        "cards": [gpu.uuid for gpu in cards],
        "device_ids": job.device_ids,
        "launch": job.launch,
        "nnodes": len(parts),
        "node_rank": part.node_rank,
        "first_rank": part.first_rank,
        "ranks": part.ranks,
        "world_size": sum(one.ranks for one in parts),
        "master_addr": _address(head),
        "master_port": head.port,
        "time_limit_s": job.time_limit_s,
        "grace_s": job.grace_s,
        "signal": job.stop_signal,
        "signal_to": job.signal_to,
        "restarts": part.attempt.restarts,
        "checkpoint": _checkpoint(part.attempt),
        "account": None,
        "disk_gib": part.disk_gib,
        "log_max_mib": job.pool.log_max_mib,
        "access": job.pool.access,
    }


def _said_of(job: Job) -> dict[str, str]:
    """What the order said of the model, for the program to read."""
    told = {f"GANGWAY_{axis.upper()}": str(size) for axis, size in job.parallelism.items()}
    if job.gpu_memory_limit_mib is not None:
        told["GANGWAY_GPU_MEMORY_LIMIT_MIB"] = str(job.gpu_memory_limit_mib)
    return told


def _address(head: Part) -> str:
    return head.node.fabric_address or head.node.address


def _checkpoint(attempt: Attempt) -> dict[str, Any] | None:
    """What the attempts before it had saved last."""
    if attempt.resumed_step is None:
        return None
    return {"step": attempt.resumed_step, "path": attempt.resumed_path}
