"""What people read: each sentence of the catalogue, word for word, and the page listing them."""

from pathlib import Path

import pytest

from scheduling.engine.explain import ever, sentence
from scheduling.engine.plan import plan
from scheduling.engine.sentences import CATALOGUE
from scheduling.engine.world import Limit, Reason, reason

from .worlds import GIB, job, why, world

PAGE = Path(__file__).parents[3] / "docs" / "placement.md"

# code and numbers -> sentence; docs/placement.md shows these rows.
LENT: dict[str, int | str] = {
    "team": "lab",
    "team_id": 1,
    "below": "vision",
    "below_id": 2,
    "model": "H100",
    "what": "gpus",
    "unit": "milli",
    "nominal": 8000,
}
SAID: list[tuple[Reason, str]] = [
    (
        reason(
            "AwaitingPreemption",
            gpus=4,
            kept=0,
            jobs="17",
            more_jobs=0,
            names="demo-a",
            more_nodes=0,
            by_s=1_800_014_590,
        ),
        "4 GPUs of job 17 on demo-a leave by 12:03:10 UTC, then it starts.",
    ),
    (
        reason("Backoff", seconds=45),
        "It could not start a moment ago. It is tried again in 45 s.",
    ),
    (
        reason("BeginTime", at_s=1_800_000_000),
        "It asked not to be started before 08:00 UTC on 15 Jan.",
    ),
    (
        reason("BookedQuota", booking=12, at_s=1_800_000_000),
        "It could still run at 08:00 UTC on 15 Jan, when reservation 12 begins and counts against "
        "its team's limit. With a time limit that ends before, it starts.",
    ),
    (
        reason(
            "Budget",
            team="vision",
            team_id=1,
            model="",
            what="budget",
            budget=3_600_000_000,
            held=3_690_000_000,
            renews_s=1_800_000_000,
        ),
        "vision has used 1,025 of its 1,000 GPU-hours of this month. It starts when new ones come, "
        "at 08:00 UTC on 15 Jan, or when the budget is raised.",
    ),
    (
        reason("Dependency", count=2, jobs="11, 14", lost=0),
        "It starts after jobs 11, 14, not ended yet.",
    ),
    (
        reason(
            "Fragmented",
            model="H100",
            asked=4,
            free=5,
            nodes=1,
            per_node=4,
            most=3,
            roomy=0,
            partly=2,
        ),
        "Needs 4 H100 on one node; the most on one node is 3. 5 are free in all, in pieces.",
    ),
    (
        reason("Frozen", by="root", why="the switch is being replaced"),
        "root has stopped all placements: the switch is being replaced. "
        "It goes on when the freeze is lifted.",
    ),
    (
        reason("HeldAdmin", attempts=5),
        "Held after 5 placements that did not start; its attempts say why. "
        "Release it to try again.",
    ),
    (
        reason("HeldCrashes", attempts=5),
        "Held after 5 crashes in a row; its attempts say why. "
        "Correct the cause and release it to try again.",
    ),
    (
        reason("HeldUser"),
        "It is held. Release it, and it takes its place in the queue.",
    ),
    (
        reason("Maintenance", bookings="4", names="h01, h02", nodes=2, at_s=1_800_000_000),
        "It could still run at 08:00 UTC on 15 Jan, when maintenance of h01, h02 begins. "
        "With a time limit that ends before, that is no obstacle; else it waits for other nodes.",
    ),
    (
        reason("NeverFits", what="gpus", model="H100", asked=16, largest=8, nodes=1, spread=2),
        "No node has 16 H100; the largest has 8. Spread it over 2 nodes, or ask for fewer.",
    ),
    (
        reason("NodeUnavailable", nodes=1, left_out=0, asked=1, names="h40", why="drained"),
        "h40 could hold this job but cannot take it now. Out of use: drained.",
    ),
    (
        reason("NotEvaluated"),
        "Not looked at yet. It is looked at in the next cycle.",
    ),
    (
        reason("PreemptionTooWide", victims=9, most_victims=8, gpus=9, most_gpus=72, asked=9),
        "It would have to stop 9 running jobs, and this pool allows 8 at once. "
        "Ask for fewer cards, or wait until jobs end.",
    ),
    (
        reason("Priority", ahead=3, jobs="11, 14, 15"),
        "3 jobs are ahead that want the same cards: jobs 11, 14, 15.",
    ),
    (
        reason("QuotaBorrow", **LENT, held=19_000, limit=24_000, asked=6000, own=8000),
        "vision holds 8 of its own 8 H100. Above that it borrows, and lab has 5 of 24 left to "
        "lend; this job needs 6. It starts when others end.",
    ),
    (
        reason(
            "QuotaLimit",
            team="vision",
            team_id=1,
            model="H100",
            what="gpus",
            unit="milli",
            held=14_000,
            limit=16_000,
            asked=4000,
        ),
        "vision holds 14 of 16 H100, and this job asks for 4. "
        "It starts when other jobs of vision end.",
    ),
    (
        reason("QuotaNominal", **LENT, held=23_000, limit=24_000, asked=4000, own=2000),
        "vision holds 2 of its own 8 H100, but others of lab have borrowed the rest: "
        "23 of 24 are in use. It starts when they give it back.",
    ),
    (
        reason("Reservation", bookings="4", names="h01", nodes=1, at_s=1_800_000_000),
        "It could still run at 08:00 UTC on 15 Jan, when a reservation on h01 begins. "
        "With a time limit that ends before, that is no obstacle; else it waits for other cards.",
    ),
    (
        reason("Resources", what="gpus", model="H100", free=9, asked=16, failed=1, foreign=2),
        "Needs 16 H100; 9 are free. "
        "Of the rest, 1 has failed and 2 are in use by somebody outside.",
    ),
    (
        reason("SlotAhead", booking=12, at_s=1_800_000_000),
        "It runs in reservation 12, which begins at 08:00 UTC on 15 Jan.",
    ),
    (
        reason("SlotFull", booking=12, cards=8, free=2, asked=4),
        "It runs in reservation 12 alone and needs 4 cards of it; 2 of its 8 are free. "
        "It starts when they are, or take it out of the reservation by submitting it anew.",
    ),
    (
        reason(
            "Topology",
            level="rack",
            model="H100",
            asked=16,
            nodes=2,
            per_node=8,
            most=12,
            roomy=1,
            loose=1,
            next_s=0,
        ),
        "Needs 16 H100 in one rack; at most 12 are free in one. "
        "Without that level it would start now.",
    ),
    (
        reason(
            "UserLimit",
            team="vision",
            team_id=1,
            model="H100",
            what="gpus",
            unit="milli",
            held=4000,
            limit=4000,
            asked=2000,
        ),
        "Its owner holds 4 of the 4 H100 that one person of vision may hold, and this job asks "
        "for 2. It starts when their other jobs end.",
    ),
]


def quota(**numbers: int | str) -> Reason:
    usual: dict[str, int | str] = {
        "team": "vision",
        "model": "",
        "what": "gpus",
        "unit": "milli",
        "held": 0,
    }
    return reason("QuotaLimit", **{**usual, **numbers})


MORE: list[tuple[Reason, str]] = [
    (
        reason("Dependency", count=1, jobs="11", lost=1),
        "It was to follow the success of job 11, and there was none. Cancel it.",
    ),
    (
        reason(
            "AwaitingPreemption",
            gpus=1,
            kept=3,
            jobs="17, 18, 19",
            more_jobs=2,
            names="h01, h02, h03",
            more_nodes=1,
            by_s=0,
        ),
        "1 GPU of jobs 17, 18, 19 and 2 more on h01, h02, h03 and 1 more leaves, then it starts. "
        "3 free already are kept for it.",
    ),
    (
        reason("Priority", kept=1, ahead=1, jobs="17", at_s=1_800_000_000),
        "It could still run at 08:00 UTC on 15 Jan, from when what it needs is kept for job 17. "
        "With a time limit that ends before, that is no obstacle.",
    ),
    (
        reason("Priority", strict=1, ahead=1, jobs="17"),
        "This pool starts jobs strictly in order, and job 17 waits ahead of it.",
    ),
    (
        reason("Priority", ahead=7, jobs="1, 2, 3, 4, 5"),
        "7 jobs are ahead that want the same cards: jobs 1, 2, 3, 4, 5 and 2 more.",
    ),
    (
        reason("Backoff", seconds=121),
        "It could not start a moment ago. It is tried again in 3 min.",
    ),
    (
        reason(
            "Fragmented",
            model="H100",
            asked=16,
            free=18,
            nodes=2,
            per_node=8,
            most=8,
            roomy=1,
            partly=2,
        ),
        "Needs 2 nodes with 8 free H100 each; 1 node has them. 18 are free in all, in pieces.",
    ),
    (
        reason("NodeUnavailable", nodes=4, left_out=0, asked=4, names="a, b, c", why=""),
        "a, b, c and 1 more could hold this job but cannot take it now. "
        "It starts when they take work again.",
    ),
    (
        reason("NodeUnavailable", nodes=1, left_out=1, asked=1, names="a", why=""),
        "a could hold this job but cannot take it now. "
        "It could not start there a short while ago; it is tried there again soon.",
    ),
    (reason("Priority", ahead=1), "1 job is ahead that wants the same cards."),
    (
        quota(held=16_000, limit=16_000, asked=1000),
        "vision is at its limit, 16 cards. It starts when other jobs of vision end.",
    ),
    (
        quota(limit=2500, asked=4000),
        "It asks for 4 cards, and vision may hold 2.5. Ask for less.",
    ),
    (
        quota(limit=0, asked=4000),
        "vision may hold no cards. An operator or its lead can raise the limit.",
    ),
    (
        quota(what="memory", unit="mib", held=GIB, limit=4 * GIB, asked=3 * GIB + 512),
        "vision holds 1 of 4 GiB of RAM, and this job asks for 3.5. "
        "It starts when other jobs of vision end.",
    ),
    (
        reason("Resources", what="cpus", model="H100", node="h35", nodes=1, free=6, asked=48),
        "h35 comes nearest, but only 6 of the 48 CPU cores it needs there are free. "
        "Ask for less, or wait until more are.",
    ),
    (
        reason(
            "Resources", what="gpus", model="", free=0, asked=2, failed=1, degraded=2, releasing=1
        ),
        "Needs 2 cards; 0 are free. "
        "Of the rest, 1 has failed, 2 are degraded and 1 is being cleaned.",
    ),
    (
        reason("Weather", rack="r7", until=5),
        "Weather: rack r7, until 5.",
    ),
]


@pytest.mark.parametrize(("told", "words"), SAID + MORE, ids=lambda row: str(row)[:40])
def test_a_reason_is_told_in_these_words(told: Reason, words: str) -> None:
    assert sentence(told) == words


REFUSED = [
    (
        {"gpus": 3, "nodes": 2},
        "3 cards cannot be divided evenly over 2 nodes. Ask for a multiple of the nodes.",
    ),
    ({"pool": 9}, "This pool has no cards. Choose another pool."),
    ({"gpu_model": "V100"}, "No V100 in this pool. It has H100; change the card model."),
    (
        {"gpu_memory_mib": 96 * GIB},
        "No H100 has 96 GiB of memory; the largest has 80. Ask for that or less.",
    ),
    (
        {"labels": (("fabric", "ib"),)},
        "No node with H100 is labelled fabric=ib. Ask for other labels.",
    ),
    ({"gpus": 3, "nodes": 3}, "Needs 3 nodes; 2 have such cards. Ask for fewer nodes."),
    (
        {"gpus": 18, "nodes": 2},
        "No 2 nodes have 9 H100 each; 8 each is the most. Ask for 16 or fewer.",
    ),
    ({"gpus": 17}, "No node has 17 H100; the largest has 8. Ask for 8 or fewer."),
    (
        {"cpus": 96},
        "No node with such cards has 96 CPU cores; the most is 64. Ask for that or less.",
    ),
    (
        {"gpus": 2, "nodes": 2, "memory_mib": 2048 * GIB},
        "No 2 nodes with such cards have 1024 GiB of RAM each; the most is 512. "
        "Ask for that or less.",
    ),
    (
        {"disk_gib": 900},
        "No node with such cards has 900 GiB of disk; the most is 800. Ask for that or less.",
    ),
    (
        {"gpus": 14, "nodes": 2},
        "It asks for 14 cards, and vision may hold 12. Ask for less.",
    ),
]


@pytest.mark.parametrize(("asked", "words"), REFUSED, ids=[str(row[0]) for row in REFUSED])
def test_a_refusal_at_submit_names_the_largest_that_could(
    asked: dict[str, object], words: str
) -> None:
    lab = world(nodes={"a": 8, "b": 8}, limits=[Limit(1, "", 12_000)])

    refused = ever(lab, job(1, **asked))

    assert refused is not None
    assert sentence(refused) == words


def test_what_the_engine_says_can_be_put_into_words() -> None:
    asked = job(1, gpus=4, cpus=90)
    day = world(nodes={"a": 12}, held={"a": 10}, fields={"a": {"cpus_free": 10}}, queue=[asked])

    assert [sentence(told) for told in why(plan(day), 1)] == [
        "Needs 4 H100; 2 are free.",
        "a comes nearest, but only 10 of the 90 CPU cores it needs there are free. "
        "Ask for less, or wait until more are.",
    ]


def test_the_page_lists_every_code_with_its_sentence() -> None:
    table = "\n".join(f"| `{told.code}` | {words} |" for told, words in SAID)

    assert [told.code for told, _ in SAID] == sorted(CATALOGUE)
    assert table in PAGE.read_text(), f"Paste this into docs/placement.md:\n{table}"
