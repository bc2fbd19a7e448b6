"""Probes become rows; whatever a node sends, rows stay sane."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes import readings
from nodes.inventory import take_in
from nodes.models import Gpu, Node, Wake

MONDAY = datetime(2030, 1, 7, 9, tzinfo=UTC)
LATER = MONDAY + timedelta(seconds=30)


def node(name: str = "a") -> Node:
    return Node.objects.create(name=name, address="192.0.2.1", host_key="k", private_key="s")


def card(letter: str, **changes: object) -> dict[str, object]:
    usual = {
        "uuid": f"GPU-{letter}", "index": 0, "model": "NVIDIA H100 80GB HBM3",
        "memory_mib": 81559, "used_mib": 4, "pci_bus_id": "00000000:18:00.0",
        "compute_capability": "9.0", "mig": None, "processes": [], "errors": {},
        "temperature_c": 33, "power_w": 70.5, "utilization_pct": 0,
    }  # fmt: skip
    return {**usual, **changes}


def probe(*cards: object, **machine: object) -> dict[str, object]:
    usual = {"hostname": "a", "boot_id": "boot-1", "cpus": 64, "memory_mib": 524288}
    usual |= {"disk_total_gib": 900, "disk_free_gib": 800}
    return {"v": 1, "driver": "580", "nvml_error": None, "gpus": cards, "node": usual | machine}


def listed(*cards: object, **machine: object) -> dict[str, object]:
    return json.loads(json.dumps(probe(*cards, **machine)))


def process(**changes: object) -> dict[str, object]:
    usual = {"pid": 4711, "uid": 1000, "user": "zoe", "name": "python3", "used_mib": 900}
    return {**usual, "run": None, **changes}


@pytest.mark.django_db
class TestRows:
    def test_the_first_probe_gives_the_node_its_size_and_its_cards(self):
        a = node()

        assert take_in(a, listed(card("1"), card("2", index=1)), MONDAY)

        a.refresh_from_db()
        assert (a.cpus, a.memory_mib, a.disk_gib, a.boot_id) == (64, 524288, 900, "boot-1")
        assert [(g.uuid, g.index, g.memory_mib) for g in a.gpus.all()] == [
            ("GPU-1", 0, 81559),
            ("GPU-2", 1, 81559),
        ]
        assert a.probed_at == a.gpus.first().seen_at == MONDAY

    def test_the_same_probe_again_is_no_reason_to_place_anew(self):
        a = node()
        take_in(a, listed(card("1")), MONDAY)
        Wake.objects.all().delete()

        assert not take_in(a, listed(card("1", temperature_c=60, used_mib=80)), LATER)

        assert not Wake.objects.exists()
        assert Gpu.objects.get().used_mib == 80
        assert Gpu.objects.get().facts["temperature_c"] == 60

    @pytest.mark.parametrize(
        "other",
        [
            listed(),
            listed(card("1"), card("2")),
            listed(card("1", memory_mib=40960)),
            listed(card("1", processes=[process()])),
            listed(card("1"), cpus=32),
            listed(card("1"), boot_id="boot-2"),
        ],
        ids=["card gone", "card new", "memory", "foreign use", "cpus", "boot"],
    )
    def test_what_matters_to_placement_wakes_it(self, other):
        a = node()
        take_in(a, listed(card("1")), MONDAY)
        Wake.objects.all().delete()

        assert take_in(a, other, LATER)

        assert Wake.objects.exists()

    def test_a_card_no_longer_seen_stays_and_is_not_present(self):
        a = node()
        take_in(a, listed(card("1"), card("2")), MONDAY)

        take_in(a, listed(card("2")), LATER)

        assert {g.uuid: g.present for g in Gpu.objects.all()} == {"GPU-1": False, "GPU-2": True}

    def test_a_card_that_came_back_is_the_same_row(self):
        a = node()
        take_in(a, listed(card("1")), MONDAY)
        was = Gpu.objects.get()
        take_in(a, listed(), LATER)

        take_in(a, listed(card("1", index=5)), LATER + timedelta(seconds=30))

        now = Gpu.objects.get()
        assert (now.pk, now.present, now.index) == (was.pk, True, 5)

    def test_a_card_put_into_another_machine_moves(self):
        a, b = node("a"), node("b")
        take_in(a, listed(card("1")), MONDAY)
        take_in(a, listed(), LATER)

        take_in(b, listed(card("1")), LATER)

        assert Gpu.objects.get().node == b

    def test_a_node_that_names_a_card_of_another_is_not_believed_while_the_other_shows_it(self):
        a, b = node("a"), node("b")
        take_in(a, listed(card("1")), MONDAY)

        take_in(b, listed(card("1"), card("2")), LATER)

        assert {g.uuid: g.node.name for g in Gpu.objects.all()} == {"GPU-1": "a", "GPU-2": "b"}
        b.refresh_from_db()
        assert b.facts["odd"] == ["Card GPU-1 is present on another node."]

    def test_a_card_of_a_machine_silent_for_long_moves_all_the_same(self):
        a, b = node("a"), node("b")
        take_in(a, listed(card("1")), MONDAY)

        take_in(b, listed(card("1")), MONDAY + timedelta(minutes=6))

        assert Gpu.objects.get().node == b

    def test_an_answer_older_than_the_last_one_changes_nothing(self):
        a = node()
        take_in(a, listed(card("1")), LATER)

        assert not take_in(a, listed(), MONDAY)

        assert Gpu.objects.get().present

    def test_it_costs_at_most_ten_queries_however_many_cards(self, django_assert_max_num_queries):
        a = node()
        take_in(a, listed(card("x")), MONDAY)
        many = listed(*(card(str(i), index=i) for i in range(64)))

        with django_assert_max_num_queries(12):  # with SAVEPOINT and RELEASE of the test's own
            take_in(a, many, LATER)

    @pytest.mark.parametrize(
        "nonsense",
        [
            {},
            {"gpus": 7, "node": [], "nvml_error": "x"},
            listed(*(card(str(i)) for i in range(1000))),
            listed(card("1"), card("1")),
            listed(card("\0"), card("1", model="x" * 100_000, pci_bus_id="\0" * 99)),
            listed(card("1", index=-4, used_mib=-1, temperature_c="\ud800", errors={"\0": "\0"})),
            listed(card("1", memory_mib=2**70), card("2", memory_mib=True), card("3", uuid=[])),
            listed(card("1", temperature_c=float("nan"), power_w=10**400), cpus=2**40, boot_id=5),
            listed(card("1", processes=["x", {"pid": "y", "user": 3}] * 999)),
            listed(card("x" * 5000), None, 3, "card"),
        ],
    )
    def test_a_hostile_answer_neither_raises_nor_spoils_a_row(self, nonsense):
        a = node()

        take_in(a, nonsense, MONDAY)

        assert a.gpus.count() <= readings.MOST_CARDS
        for gpu in a.gpus.all():
            assert 0 < gpu.memory_mib <= readings.GREATEST
            assert len(json.dumps(gpu.facts)) < 20_000
        a.refresh_from_db()
        assert len(json.dumps(a.facts)) < 20_000


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
KEYS = st.sampled_from(["uuid", "index", "memory_mib", "processes", "errors", "used_mib", "model"])
CARDS = st.lists(st.dictionaries(KEYS, ANYTHING | st.just("GPU-1") | st.just(80000)) | ANYTHING)


@given(st.fixed_dictionaries({"gpus": CARDS | ANYTHING, "node": ANYTHING, "nvml_error": ANYTHING}))
def test_whatever_json_a_node_sends_is_read(answer):
    found = readings.read(answer)

    json.dumps(found.facts, allow_nan=False).encode()
    assert len({card.uuid for card in found.cards}) == len(found.cards)


@pytest.mark.parametrize(
    ("used_mib", "processes", "said"),
    [
        (4, [], ""),
        (512, [], ""),
        (513, [], "513 MiB in use, and no process of this node's runs is seen on the card"),
        (60_000, [process(run="5-1-0000000a")], ""),
        (900, [process()], "zoe, pid 4711 (python3), 900 MiB"),
        (900, [process(user=None, name="", used_mib=None)], "uid 1000, pid 4711"),
        (
            900,
            [process(run="5-1-0000000a"), *(process(pid=n, name="") for n in (1, 2, 3, 4))],
            "zoe, pid 1, 900 MiB; zoe, pid 2, 900 MiB; zoe, pid 3, 900 MiB; and 1 more",
        ),
    ],
)
def test_who_from_outside_uses_a_card_is_said_with_user_and_pid(used_mib, processes, said):
    [found] = readings.read(listed(card("1", used_mib=used_mib, processes=processes))).cards

    assert found.foreign_use == said
