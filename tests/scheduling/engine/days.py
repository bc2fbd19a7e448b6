"""A virtual day: the engine's plans carried out one after another, and what runs ends in time.

``Day`` keeps who runs where; time jumps from event to event. Jobs end exactly at their limit unless
``true_us`` says that they end sooner.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from scheduling.engine.plan import plan
from scheduling.engine.world import Job, Node, PartPlan, Running, World


@dataclass
class Day:
    """Nodes, what runs on them, who waits. ``started`` and ``ended`` are job id -> time."""

    world: World
    true_us: Mapping[int, int] = field(default_factory=dict)
    running: dict[int, tuple[Job, tuple[PartPlan, ...], int]] = field(default_factory=dict)
    started: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)

    @property
    def now_us(self) -> int:
        return self.world.now_us

    def seen(self) -> World:
        """The world as a cycle sees it: what runs is taken off the nodes."""
        nodes = {node.id: node for node in self.world.nodes}
        running = []
        for job, parts, start_us in self.running.values():
            ends_us = None if job.limit_us is None else start_us + job.limit_us
            for part in parts:
                nodes[part.node] = _without(nodes[part.node], part)
                side = (part.cpus, part.memory_mib, part.disk_gib)
                running.append(Running(job.id, part.node, part.gpus, *side, ends_us, job.team))
        return replace(self.world, nodes=tuple(nodes.values()), running=tuple(running))

    def cycle(self) -> None:
        """Plan and start what is to start."""
        jobs = {job.id: job for job in self.world.jobs}
        for placement in plan(self.seen()).placements:
            self.running[placement.job] = (jobs.pop(placement.job), placement.parts, self.now_us)
            self.started[placement.job] = self.now_us
        self.world = replace(self.world, jobs=tuple(jobs.values()))

    def add(self, *jobs: Job) -> None:
        self.world = replace(self.world, jobs=(*self.world.jobs, *jobs))

    def run(
        self, arrivals: Iterable[Job] = (), until: Callable[["Day"], bool] | None = None
    ) -> None:
        """Go on until nothing runs or arrives any more, or until ``until`` says so."""
        coming = sorted(arrivals, key=lambda job: (job.submitted_us, job.id))
        while True:
            while coming and coming[0].submitted_us <= self.now_us:
                self.add(coming.pop(0))
            self.cycle()
            if until is not None and until(self):
                return
            moments = [self._end(id) for id in self.running if self._end(id) is not None]
            moments += [job.submitted_us for job in coming[:1]]
            if not moments:
                return
            self.world = replace(self.world, now_us=min(moments))
            for id in [id for id in self.running if self._end(id) == self.now_us]:
                del self.running[id]
                self.ended[id] = self.now_us

    def _end(self, id: int) -> int | None:
        job, _, start_us = self.running[id]
        lasts_us = self.true_us.get(id, job.limit_us)
        return None if lasts_us is None else start_us + lasts_us


def _without(node: Node, part: PartPlan) -> Node:
    gone = set(part.gpus)
    gpus = tuple(
        replace(gpu, free=False, why_not="held") if gpu.id in gone else gpu for gpu in node.gpus
    )
    return replace(
        node,
        gpus=gpus,
        cpus_free=node.cpus_free - part.cpus,
        memory_free_mib=node.memory_free_mib - part.memory_mib,
        disk_free_gib=node.disk_free_gib - part.disk_gib,
    )
