"""Asking nodes: one kept connection, many questions, and what happens when it breaks."""

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from nodes import channel, hearing, runs, ship
from nodes.errors import KeyRejected, NodeRefused, NodeUnreachable
from nodes.models import Node, Wake
from nodes.stream import OneShots
from nodes.wire import LocalWire

from .machines import Machine, Proxy, cargo_there, free_port, order, runner_of, until


def ask(node: Node, verb: str = "hello", **args: object) -> dict:
    return channel.ask(node, verb, args, timeout_s=10)


def ask_until_heard(node: Node, verb: str, **args: object) -> dict:
    """Ask again while the node is not reached, as looks do."""
    heard: list[dict] = []

    def try_once() -> bool:
        try:
            heard.append(ask(node, verb, **args))
        except NodeUnreachable:
            return False
        return True

    until(try_once, within_s=20, what=f"{verb} is answered")
    return heard[0]


def card_of(node: Node, index: int = 0) -> str:
    return ask(node, "probe")["gpus"][index]["uuid"]


def test_the_first_question_ships_the_cargo_and_is_answered(machine):
    node = machine.node()

    answer = ask(node)

    assert answer["root"] == node.root
    assert cargo_there(node)


def test_many_questions_at_once_each_get_their_own_answer(machine):
    node = machine.node()
    wanted = [f"{number}-1-0000000a" for number in range(200)]

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda run: ask(node, "look", runs=[run])["unknown"], wanted))

    assert answers == [[run] for run in wanted]
    assert len(runner_of(node)) == 1


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("hello", {}),
        ("look", {"runs": ["7-1-0000000a"]}),
        ("stop", {"run": "7-1-0000000b", "grace_s": 1, "reason": "cancel"}),
        ("go", {"run": "7-1-0000000c"}),
        ("tail", {"run": "7-1-0000000d"}),
        ("probe", {}),
        ("prepare", {"order": {"run": 5}}),
        ("no such verb", {}),
    ],
)
def test_the_kept_runner_and_its_one_shot_twin_answer_alike_here_and_over_ssh(machine, verb, args):
    node = machine.node()
    state = {"GANGWAY_FAKE_NVML": str(machine.folder / "nvml.json")}
    channel.connect(node)
    wires = {"ssh": channel.wire_to(node), "here": LocalWire(environment=state)}

    said = {"kept": _said(channel.open_speaker(node), verb, args)}
    for name, wire in wires.items():
        command = ship.runner_command(
            node, ship_hash(node), "once", instance=os.environ["GANGWAY_INSTANCE"]
        )
        said[name] = _said(OneShots(wire, command, lasts_s=60), verb, args)

    assert said["kept"] == said["ssh"] == said["here"]


def ship_hash(node: Node) -> str:
    return next(Path(node.root, "bin").iterdir()).name


def _said(speaker: channel.Speaker, verb: str, args: dict) -> object:
    """An answer without what differs from moment to moment."""
    try:
        answer = speaker.ask(verb, args, 20)
    except NodeRefused as refusal:
        return refusal.code, refusal.kind, refusal.cause, refusal.next_step
    finally:
        speaker.end()
    fleeting = {"wall_time_s", "monotonic_s", "loadavg", "uptime_s", "node", "driver"}
    return {name: value for name, value in answer.items() if name not in fleeting}


def test_a_refusal_of_the_node_comes_with_its_class_and_its_two_sentences(machine):
    node = machine.node()

    with pytest.raises(NodeRefused, match="no such verb") as refusal:
        ask(node, "no such verb")

    assert refusal.value.kind == "request"
    assert refusal.value.next_step
    assert ask(node)["root"] == node.root


def test_the_end_of_a_run_is_heard_without_asking(machine):
    heard: list[tuple[int, dict]] = []
    hearing.listen(lambda node_id, reports: heard.extend((node_id, r) for r in reports))
    node = machine.node()
    runs.prepare(node, order("1-1-0000000a", "echo done", card=card_of(node)))

    runs.go(node, "1-1-0000000a")

    until(lambda: any(report["state"] == "ended" for _, report in heard), what="the end is heard")
    assert {node_id for node_id, _ in heard} == {node.pk}
    assert heard[-1][1]["exit"] == 0


def test_events_that_come_together_are_handed_on_together():
    batches: list[list[int]] = []
    hearing.listen(lambda node_id, reports: batches.append([r["seq"] for r in reports]))

    for seq in range(500):
        hearing.drop(3, {"seq": seq})

    until(lambda: sum(map(len, batches)) == 500, what="all are heard")
    assert [seq for batch in batches for seq in batch] == list(range(500))
    assert len(batches) < 250


def test_a_listener_that_fails_hears_the_next_report():
    heard: list[int] = []

    def fail_first(_: int, reports: list[dict]) -> None:
        if not heard:
            heard.append(-1)
            raise ValueError("the first is too much")
        heard.extend(report["seq"] for report in reports)

    hearing.listen(fail_first)
    hearing.drop(3, {"seq": 1})
    until(lambda: heard == [-1], what="the first failed")
    hearing.drop(3, {"seq": 2})

    until(lambda: heard == [-1, 2], what="the second is heard")


def test_when_the_runner_dies_all_who_wait_hear_it_at_once(machine):
    node = machine.node()
    ask(node)
    [runner] = runner_of(node)
    os.kill(runner, signal.SIGSTOP)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(ask, node) for _ in range(4)]
        assert not wait(waiting, timeout=0.3).done
        begun = time.monotonic()
        os.kill(runner, signal.SIGKILL)
        errors = [future.exception(timeout=5) for future in waiting]

    assert time.monotonic() - begun < 2
    assert all(isinstance(error, NodeUnreachable) for error in errors)
    assert ask_until_heard(node, "hello")["root"] == node.root


def test_a_restarted_machine_is_reached_again(own_demo):
    node = own_demo.node()
    ask(node)
    own_demo.kill()
    with pytest.raises(NodeUnreachable):
        ask(node)
    own_demo.start()

    assert ask_until_heard(node, "hello")["root"] == node.root


def test_a_dead_node_holds_no_thread_and_is_not_tried_at_every_question(machine, monkeypatch):
    tries: list[Node] = []
    right = channel.open_speaker
    monkeypatch.setattr(channel, "open_speaker", lambda node: (tries.append(node), right(node))[1])
    node = machine.node(port=free_port())
    with pytest.raises(NodeUnreachable, match="refused"):
        ask(node)

    begun = time.monotonic()
    with ThreadPoolExecutor(50) as pool:
        errors = list(pool.map(lambda _: _error_of(node), range(200)))

    assert all(isinstance(error, NodeUnreachable) for error in errors)
    took_s = time.monotonic() - begun
    assert took_s < 2
    assert len(tries) <= 1 + took_s / 0.4


def test_a_node_that_swallows_connections_is_waited_for_three_seconds_once(monkeypatch):
    hang = threading.Event()
    monkeypatch.setattr(channel, "open_speaker", lambda node: hang.wait(30) and None)
    monkeypatch.setattr(channel, "FIRST_WAIT_S", 0.5)
    node = Node(pk=77, name="swallow")

    begun = time.monotonic()
    with ThreadPoolExecutor(40) as pool:
        errors = list(pool.map(lambda _: _error_of(node), range(200)))
    hang.set()

    assert all("is being connected to" in str(error) for error in errors)
    assert time.monotonic() - begun < 3


def test_one_node_is_connected_to_once_however_many_ask(machine, proxy):
    node = machine.node(port=proxy.port, address="127.0.0.1")
    before = proxy.connections

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda _: ask(node)["root"], range(64)))

    assert answers == [node.root] * 64
    assert proxy.connections - before == 1


def test_a_key_that_is_not_let_in_is_told_as_such(machine):
    node = machine.node()
    machine.authorized_keys.write_text("")

    for _ in range(2):
        with pytest.raises(KeyRejected, match="does not let the portal's key in"):
            ask(node)


def test_when_the_runner_does_not_stay_up_one_shots_answer(machine, monkeypatch):
    right = ship.runner_command

    def broken(node: Node, cargo_hash: str, mode: str, **options: object) -> str:
        return "false" if mode == "serve" else right(node, cargo_hash, mode, **options)

    monkeypatch.setattr(ship, "runner_command", broken)
    node = machine.node()

    assert ask(node)["root"] == node.root
    with pytest.raises(NodeRefused, match="Send prepare first"):
        ask(node, "go", run="1-1-0000000a")


def test_nonsense_from_a_node_ends_the_stream_and_nothing_else(machine, monkeypatch):
    monkeypatch.setattr(
        ship, "runner_command", lambda *_, **__: """printf '{"event":"hello"}\\n[1]\\nrubbish\\n'"""
    )
    node = machine.node()

    with pytest.raises(NodeUnreachable):
        ask(node)


def test_a_changed_identity_of_the_node_is_a_new_connection(machine):
    node, other = machine.node(), machine.node()
    assert ask(node)["root"] == node.root

    other.pk = node.pk

    assert ask(other)["root"] == other.root


def test_a_forked_process_opens_its_own_connection_and_leaves_the_parents_alone(machine):
    node = machine.node()
    ask(node)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if ask(node)["root"] == node.root else 2
        finally:
            os._exit(code)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ask(node)["root"] == node.root


@pytest.mark.django_db(transaction=True)
def test_a_changed_host_key_stops_all_traffic_until_an_operator_says_otherwise(machine, proxy):
    node = machine.node(pk=None, address="127.0.0.1", port=proxy.port)
    right, node.host_key = node.host_key, "ssh-ed25519 AAAAotherkey"
    node.save()
    with pytest.raises(NodeUnreachable, match="not the pinned one"):
        ask(node)
    until(lambda: Node.objects.get(pk=node.pk).alarm, what="the alarm is set")

    before = proxy.connections
    node.refresh_from_db()
    with pytest.raises(NodeUnreachable, match=r"All traffic to .* is stopped"):
        ask(node)
    assert proxy.connections == before
    assert "not the pinned one" in node.alarm
    assert Wake.objects.exists()

    node.alarm, node.host_key = "", right
    node.save()
    assert ask(node)["root"] == node.root


@pytest.mark.django_db(transaction=True)
def test_a_node_of_another_portal_stops_all_traffic(machine, settings):
    node = machine.node(pk=None)
    node.save()
    ask(node)
    channel.close_all()

    settings.GANGWAY_INSTANCE = "00000000-0000-4000-8000-00000000000b"
    with pytest.raises((NodeRefused, NodeUnreachable), match="belongs to the portal instance"):
        ask(node)

    until(lambda: "belongs to" in Node.objects.get(pk=node.pk).alarm, what="the alarm is set")


@pytest.mark.django_db(transaction=True)
def test_a_runner_that_says_whose_the_node_is_before_hello_stops_all_traffic(demo, monkeypatch):
    refusal = {"code": "owned_by_other", "class": "foreign", "cause": "Not ours.", "next_step": "x"}
    line = json.dumps({"id": None, "error": refusal})
    monkeypatch.setattr(ship, "runner_command", lambda *_, **__: f"echo '{line}'")
    monkeypatch.setattr(channel, "FIRST_WAIT_S", 0.0)
    node = demo.node(pk=None)
    node.save()

    with pytest.raises(NodeUnreachable, match="is being connected to"):
        ask(node)

    until(lambda: Node.objects.get(pk=node.pk).alarm == "Not ours.", what="the alarm is set")


def test_a_run_is_started_once_wherever_the_cable_was_cut(machine: Machine, proxy: Proxy, tmp_path):
    node = machine.node(address="127.0.0.1", port=proxy.port)
    card = card_of(node)
    proof = tmp_path / "proof"
    places = 60 if machine.address == "127.0.5.1" else 15
    first, *run_ids = [f"{place}-1-0000000a" for place in range(places + 1)]
    for run in [first, *run_ids]:
        runs.prepare(node, order(run, f"echo {run} >> {proof}", card=card))
    before = proxy.passed
    runs.go(node, first)
    length = proxy.passed - before

    for place, run in enumerate(run_ids):
        proxy.cut_after(1 + place * length // len(run_ids))
        _error_of(node, "go", run=run)
        proxy.cut_after(None)
        assert ask_until_heard(node, "go", run=run)["report"]["state"] in ("started", "ended")

    def ended() -> bool:
        reports = ask_until_heard(node, "look", runs=run_ids)["reports"]
        return all(r["state"] == "ended" for r in reports if r["run"] in run_ids)

    until(ended, what="all runs end")
    assert sorted(proof.read_text().split()) == sorted([first, *run_ids])
    assert proxy.connections > places // 2


def _error_of(node: Node, verb: str = "hello", **args: object) -> Exception | None:
    try:
        ask(node, verb, **args)
    except (NodeUnreachable, NodeRefused) as error:
        return error
    return None
