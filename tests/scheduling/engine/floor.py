"""A floor of nodes on which plans are carried out, evictions and pledges included.

Whoever is evicted leaves after ``leave_us`` (by job; 60 s else) and waits again with what it had
saved. Time moves only by ``pass_``.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from scheduling.engine.plan import plan
from scheduling.engine.world import Eviction, Job, Node, PartPlan, Plan, Pledge, Running, Use, World

SECOND = 1_000_000
WINDOW_US = 60 * SECOND


@dataclass
class Run:
    """An attempt: which job, where, since when, and when it is gone if it leaves."""

    job: Job
    parts: tuple[PartPlan, ...]
    attempt: int
    since_us: int
    saved_us: int = 0
    gone_us: int | None = None
    min_runtime_us: int = 0


@dataclass
class Floor:
    """Nodes, who runs, who waits, what is pledged. ``evicted`` counts (victim, by)."""

    world: World
    leave_us: dict[int, int] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    pledges: dict[int, Pledge] = field(default_factory=dict)
    evicted: Counter[tuple[int, int]] = field(default_factory=Counter)
    evicted_us: dict[int, int] = field(default_factory=dict)
    started: list[int] = field(default_factory=list)
    attempts: int = 0

    @property
    def now_us(self) -> int:
        return self.world.now_us

    def start(self, job: Job, node: int, *gpus: int, **more: int) -> None:
        """Let a job run on cards of a node since the given time (now, if none is given)."""
        held = next(n for n in self.world.nodes if n.id == node)
        share = len(gpus) * (held.cpus // max(1, len(held.gpus)))
        part = PartPlan(node, gpus, share, len(gpus) * 1024, 0)
        self._run(job, (part,), **more)

    def _run(self, job: Job, parts: tuple[PartPlan, ...], **more: int) -> None:
        self.attempts += 1
        facts = {"since_us": self.now_us} | more
        self.runs[job.id] = Run(job, parts, self.attempts, **facts)

    def seen(self) -> World:
        """The world as a cycle sees it."""
        nodes = {node.id: node for node in self.world.nodes}
        running = []
        for run in self.runs.values():
            for part in run.parts:
                nodes[part.node] = without(nodes[part.node], part)
                running.append(self._claim(run, part))
        return replace(
            self.world,
            nodes=tuple(nodes.values()),
            running=tuple(running),
            pledges=tuple(self.pledges.values()),
            uses=tuple(self._use(run, part) for run in self.runs.values() for part in run.parts),
        )

    def _use(self, run: Run, part: PartPlan) -> Use:
        milli = 1000 * len(part.gpus)
        firm = 0 if run.job.preemptible else milli
        sides = (part.cpus, part.memory_mib)
        return Use(run.job.team, "H100", milli, *sides, firm, run.job.user)

    def cycle(self) -> Plan:
        """Plan and carry out."""
        decided = plan(self.seen())
        jobs = {job.id: job for job in self.world.jobs}
        for fallen in decided.fallen:
            del self.pledges[fallen.job]
        for placement in decided.placements:
            self._run(jobs.pop(placement.job), placement.parts)
            self.pledges.pop(placement.job, None)
            self.started.append(placement.job)
        for pledge in decided.pledges:
            self.pledges[pledge.job] = pledge
        for eviction in decided.evictions:
            self._evict(eviction)
        self.world = replace(self.world, jobs=tuple(jobs.values()))
        return decided

    def _evict(self, eviction: Eviction) -> None:
        run = self.runs[eviction.job]
        assert run.attempt == eviction.attempt and run.gone_us is None
        run.gone_us = self.now_us + self.leave_us.get(eviction.job, WINDOW_US)
        self.evicted[eviction.job, eviction.by] += 1
        self.evicted_us[eviction.job] = self.now_us

    def add(self, *jobs: Job) -> None:
        self.world = replace(self.world, jobs=(*self.world.jobs, *jobs))

    def end(self, job: int) -> None:
        """A job is done."""
        del self.runs[job]

    def pass_(self, us: int) -> None:
        """Let time pass; who has left waits again."""
        self.world = replace(self.world, now_us=self.now_us + us)
        for run in [r for r in self.runs.values() if r.gone_us and r.gone_us <= self.now_us]:
            del self.runs[run.job.id]
            self.add(run.job)

    def _claim(self, run: Run, part: PartPlan) -> Running:
        job = run.job
        return Running(
            job=job.id,
            node=part.node,
            gpus=part.gpus,
            cpus=part.cpus,
            memory_mib=part.memory_mib,
            disk_gib=part.disk_gib,
            ends_us=None,
            team=job.team,
            preemptible=job.preemptible,
            attempt=run.attempt,
            priority=job.priority,
            submitted_us=job.submitted_us,
            since_us=run.since_us,
            saved_us=run.saved_us,
            grace_us=WINDOW_US,
            min_runtime_us=run.min_runtime_us,
            evictions=sum(n for (victim, _), n in self.evicted.items() if victim == job.id),
            evicted_by=tuple(sorted(by for victim, by in self.evicted if victim == job.id)),
            evicted_us=self.evicted_us.get(job.id, 0),
            leaving=run.gone_us is not None,
            leaves_us=run.gone_us or 0,
            user=job.user,
        )


def without(node: Node, part: PartPlan) -> Node:
    """A node less a part that runs on it."""
    gone = set(part.gpus)
    return replace(
        node,
        gpus=tuple(
            replace(gpu, free=False, why_not=gpu.why_not or "held") if gpu.id in gone else gpu
            for gpu in node.gpus
        ),
        cpus_free=node.cpus_free - part.cpus,
        memory_free_mib=node.memory_free_mib - part.memory_mib,
        disk_free_gib=node.disk_free_gib - part.disk_gib,
    )


def victims(decided: Plan) -> list[int]:
    """The jobs that a plan evicts, in order of their ids."""
    return sorted(eviction.job for eviction in decided.evictions)
