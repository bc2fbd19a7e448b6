"""What holds in every world, tried on small random ones against a brute-force oracle."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine.plan import plan
from scheduling.engine.world import Job, Limit, Node, Reason, World

from . import oracle
from .strategies import worlds
from .worlds import after

tried = settings(max_examples=150, deadline=None)


@tried
@given(worlds())
def test_no_card_is_given_twice_and_none_that_is_not_free(any_day: World) -> None:
    free = {gpu.id for node in any_day.nodes for gpu in node.gpus if gpu.free}
    given_out = [g for p in plan(any_day).placements for part in p.parts for g in part.gpus]

    assert len(given_out) == len(set(given_out))
    assert set(given_out) <= free


@tried
@given(worlds())
def test_every_job_is_either_placed_or_waits_with_a_reason(any_day: World) -> None:
    decided = plan(any_day)

    told = [p.job for p in decided.placements] + [w.job for w in decided.waiting]
    assert sorted(told) == sorted(job.id for job in any_day.jobs)
    assert all(waiting.reasons for waiting in decided.waiting)


@tried
@given(worlds())
def test_no_team_holds_more_than_its_limit(any_day: World) -> None:
    evening = after(any_day, plan(any_day))

    for limit in any_day.limits:
        before, now = oracle.held(any_day, limit), oracle.held(evening, limit)
        most = (limit.milli, limit.cpus, limit.memory_mib)
        for was, amount, top in zip(before, now, most, strict=True):
            assert top is None or amount <= max(was, top)


@tried
@given(worlds())
def test_no_node_gives_more_cpu_ram_or_disk_than_it_has(any_day: World) -> None:
    evening = {node.id: node for node in after(any_day, plan(any_day)).nodes}

    for node in any_day.nodes:
        left = evening[node.id]
        assert left.cpus_free >= min(0, node.cpus_free)
        assert left.memory_free_mib >= 0
        assert left.disk_free_gib >= 0


@tried
@given(worlds())
def test_a_gang_gets_equal_parts_on_different_nodes_or_nothing(any_day: World) -> None:
    asked = {job.id: job for job in any_day.jobs}

    for p in plan(any_day).placements:
        job = asked[p.job]
        assert [len(part.gpus) for part in p.parts] == [job.gpus // job.nodes] * job.nodes
        assert len({part.node for part in p.parts}) == job.nodes


@tried
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(any_day: World, dice: object) -> None:
    def shuffled(items: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(dice.sample(items, len(items)))  # type: ignore[attr-defined]

    nodes = tuple(replace(node, gpus=shuffled(node.gpus)) for node in any_day.nodes)
    mixed = World(
        any_day.now_us,
        shuffled(nodes),
        shuffled(any_day.jobs),
        shuffled(any_day.teams),
        shuffled(any_day.limits),
        shuffled(any_day.uses),
    )

    assert repr(plan(mixed)) == repr(plan(any_day))


@tried
@given(worlds())
def test_no_job_waits_that_would_fit_what_is_left(any_day: World) -> None:
    evening = after(any_day, plan(any_day))

    assert [job.id for job in evening.jobs if any(oracle.places(evening, job))] == []


@tried
@given(worlds(max_jobs=1))
def test_a_job_gets_the_tightest_of_all_places(any_day: World) -> None:
    (job,) = any_day.jobs
    choices = [oracle.tightness(job, *place) for place in oracle.places(any_day, job)]
    by_id = {node.id: node for node in any_day.nodes}
    model_of = {gpu.id: gpu.model for node in any_day.nodes for gpu in node.gpus}

    got = [
        oracle.tightness(
            job, model_of[p.parts[0].gpus[0]], tuple(by_id[part.node] for part in p.parts)
        )
        for p in plan(any_day).placements
    ]
    assert got == ([min(choices)] if choices else [])


@tried
@given(worlds())
def test_reasons_are_true_mend_what_they_name_and_the_job_starts(any_day: World) -> None:
    decided = plan(any_day)
    evening = after(any_day, decided)
    jobs = {job.id: job for job in evening.jobs}

    for waiting in decided.waiting:
        mended = replace(evening, jobs=(jobs[waiting.job],))
        for reason in waiting.reasons:
            mended = _mend(mended, reason)
        never = any(reason.code == "NeverFits" for reason in waiting.reasons)
        assert bool(plan(mended).placements) is not never, waiting


@tried
@given(worlds(max_jobs=3))
def test_never_fits_is_said_only_of_what_no_state_of_the_nodes_could_hold(
    any_day: World,
) -> None:
    decided = plan(any_day)
    jobs = {job.id: job for job in any_day.jobs}

    for waiting in decided.waiting:
        best_day = _everything_free(replace(any_day, limits=(), jobs=(jobs[waiting.job],)))
        (job,) = best_day.jobs
        never = any(reason.code == "NeverFits" for reason in waiting.reasons)
        assert never is not any(oracle.places(best_day, job))


def _mend(broken: World, reason: Reason) -> World:
    """Change what a reason names, and nothing else."""
    numbers = dict(reason.numbers)
    (job,) = broken.jobs
    if reason.code == "Backoff":
        return replace(broken, now_us=broken.now_us + int(numbers["seconds"]) * 1_000_000)
    if reason.code in ("QuotaLimit", "QuotaNominal", "QuotaBorrow"):
        return _raised(broken, numbers)
    if reason.code == "UserLimit":
        return _raised(broken, {**numbers, "what": "user"})
    if reason.code == "NodeUnavailable":
        nodes = tuple(replace(node, accepts_work=True) for node in broken.nodes)
        return replace(broken, nodes=nodes, jobs=(replace(job, excluded=frozenset()),))
    if reason.code in ("Resources", "Fragmented"):
        what = str(numbers.get("what", "gpus"))
        return replace(broken, nodes=tuple(_given_back(node, what) for node in broken.nodes))
    return broken


def _given_back(node: Node, what: str) -> Node:
    """Give back all of one thing; a card comes back with its share of the node."""
    if what == "gpus":
        back = sum(not gpu.free for gpu in node.gpus)
        cards = max(1, len(node.gpus))
        return replace(
            node,
            gpus=tuple(replace(gpu, free=True) for gpu in node.gpus),
            cpus_free=min(node.cpus, node.cpus_free + back * (node.cpus // cards)),
            memory_free_mib=min(
                node.memory_mib, node.memory_free_mib + back * (node.memory_mib // cards)
            ),
        )
    total, free = {
        "cpus": ("cpus", "cpus_free"),
        "memory": ("memory_mib", "memory_free_mib"),
        "disk": ("disk_gib", "disk_free_gib"),
    }[what]
    return replace(node, **{free: getattr(node, total)})


def _raised(broken: World, numbers: dict[str, int | str]) -> World:
    fields = {"gpus": "milli", "cpus": "cpus", "memory": "memory_mib", "user": "user_milli"}
    field = fields[str(numbers["what"])]
    needed = int(numbers["held"]) + int(numbers["asked"])
    if numbers.get("firm"):
        return _owned(broken, numbers, needed)
    limits = tuple(
        replace(limit, **{field: needed}, **_all_own(limit, field, needed))
        if (limit.team, limit.gpu_model) == (numbers["team_id"], numbers["model"])
        and getattr(limit, field) == numbers["limit"]
        else limit
        for limit in broken.limits
    )
    assert limits != broken.limits
    return replace(broken, limits=limits)


def _all_own(limit: Limit, field: str, needed: int) -> dict[str, int]:
    """Where nothing may be borrowed, a higher limit is a larger share of its own."""
    own = field == "milli" and limit.nominal_milli and limit.nominal_milli == limit.milli
    return {"nominal_milli": needed} if own else {}


def _owned(broken: World, numbers: dict[str, int | str], needed: int) -> World:
    """Raise what a team may hold, and what is its own if anything is."""
    at = (numbers["team_id"], numbers["model"])
    return replace(
        broken,
        limits=tuple(
            replace(
                limit,
                milli=None if limit.milli is None else max(limit.milli, needed),
                nominal_milli=limit.nominal_milli and max(limit.nominal_milli, needed),
            )
            if (limit.team, limit.gpu_model) == at
            else limit
            for limit in broken.limits
        ),
    )


def _everything_free(world: World) -> World:
    nodes = world.nodes
    for what in ("gpus", "cpus", "memory", "disk"):
        nodes = tuple(_given_back(node, what) for node in nodes)
    jobs: tuple[Job, ...] = tuple(
        replace(job, excluded=frozenset(), eligible_us=0) for job in world.jobs
    )
    return replace(world, nodes=tuple(replace(n, accepts_work=True) for n in nodes), jobs=jobs)
