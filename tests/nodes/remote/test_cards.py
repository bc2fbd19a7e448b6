"""Cards: what a probe says, which are free, which are clean."""

import copy
import os
import time
from pathlib import Path

from nodes.remote.nvmlchild import COLD_S, Nvml, Source, readable
from nodes.remote.waiting import Loop

from .conftest import LOOK_ALIKE, LocalNode, Serve, eventually, order


def changed(node: LocalNode, index: int, **fields) -> None:
    state = copy.deepcopy(node.state)
    state["gpus"][index].update(fields)
    node.set_cards(state)


def test_a_probe_tells_the_node_and_its_cards(node: LocalNode, serve: Serve):
    line = serve.ok("probe")

    assert (line["v"], line["driver"], line["nvml_error"]) == (1, "580.95.05", None)
    assert [gpu["uuid"] for gpu in line["gpus"]] == node.uuids
    first = line["gpus"][0]
    assert (first["index"], first["model"], first["memory_mib"]) == (
        0,
        "NVIDIA H100 80GB HBM3",
        81559,
    )
    assert (first["used_mib"], first["processes"], first["errors"]) == (0, [], {})
    assert first["compute_capability"] == "9.0"
    machine = line["node"]
    assert machine["boot_id"] == serve.hello["boot_id"]
    assert machine["cpus"] == os.cpu_count()
    assert machine["memory_mib"] > 0
    assert machine["filesystem"] not in ("", "unknown")


def test_one_broken_sensor_hides_nothing_else(node: LocalNode, serve: Serve):
    serve.ok("probe")
    changed(node, 2, errors={"Temperature": 15, "PowerUsage": 3}, utilization_pct=97)

    sick = serve.ok("probe")["gpus"][2]

    assert sick["errors"] == {"temperature_c": "GPU is lost", "power_w": "Not Supported"}
    assert (sick["temperature_c"], sick["power_w"], sick["utilization_pct"]) == (None, None, 97)


def test_a_lost_card_keeps_its_place_and_hides_no_other(node: LocalNode, serve: Serve):
    changed(node, 1, errors={"HandleByIndex": 15})

    gpus = serve.ok("probe")["gpus"]

    assert [gpu["index"] for gpu in gpus] == list(range(8))
    assert (gpus[1]["uuid"], gpus[1]["errors"]) == (None, {"handle": "GPU is lost"})
    assert gpus[2]["uuid"] == node.uuids[2]


def test_a_hung_driver_is_said_within_seconds_and_blocks_nothing_else(
    node: LocalNode, serve: Serve
):
    serve.ok("probe")
    node.set_cards({**node.state, "hang_s": 60})
    begun_s = time.monotonic()
    hung, other = serve.send("probe"), serve.send("hello")

    assert serve.answers.get(timeout=3)["id"] == other
    answer = serve.answers.get(timeout=20)

    assert answer["id"] == hung
    assert answer["ok"]["nvml_error"]["code"] == "probe_hung"
    assert 5 <= time.monotonic() - begun_s < 10
    node.set_cards({**node.state, "hang_s": 0})
    assert serve.ok("probe")["nvml_error"] is None


def test_a_child_that_got_ready_long_before_its_first_question_is_not_taken_for_hung(
    node: LocalNode, monkeypatch
):
    monkeypatch.setenv("GANGWAY_FAKE_NVML", str(node.state_file))
    nvml = Nvml(Source(LOOK_ALIKE, None, None))
    nvml.warm()
    try:
        eventually(lambda: readable(nvml.reader))
        nvml.born_s -= COLD_S + 1
        found: list[dict] = []
        loop = Loop()
        loop.add(nvml.ask({"ask": "probe"}), found.append)
        loop.finish()
    finally:
        nvml.end()

    assert found[0]["ok"]["nvml_error"] is None
    assert len(found[0]["ok"]["gpus"]) == 8


def test_nvidias_own_module_without_a_driver_says_what_is_missing(node: LocalNode):
    module = f"--nvml-module={node.bin / 'pynvml.py'}"

    line = node.once("probe", module)["ok"]

    assert line["gpus"] == []
    assert line["nvml_error"]["code"] == "no_driver"
    assert "libnvidia-ml.so.1" in line["nvml_error"]["cause"]
    assert line["node"]["cpus"] == os.cpu_count()
    busy = node.once("prepare", module, order=order("7-1-a", cards=["GPU-1"]))["error"]
    assert (busy["code"], busy["class"]) == ("card_missing", "node")


def test_a_driver_that_comes_back_is_found_by_the_next_probe(node: LocalNode, serve: Serve):
    node.set_cards({**node.state, "error": 9})
    assert serve.ok("probe")["nvml_error"]["code"] == "driver_not_loaded"

    node.set_cards({**node.state, "error": None})

    assert len(serve.ok("probe")["gpus"]) == 8


def test_a_card_that_somebody_uses_is_refused_with_pid_and_user(node: LocalNode, serve: Serve):
    changed(node, 0, processes=[{"pid": os.getpid(), "used_mib": 900}], used_mib=900)
    changed(node, 1, used_mib=513)

    by_process = serve.ask("prepare", order=order("7-1-a", cards=node.uuids[:1]))["error"]
    by_memory = serve.ask("prepare", order=order("7-2-b", cards=node.uuids[1:2]))["error"]
    missing = serve.ask("prepare", order=order("7-3-c", cards=["GPU-none"]))["error"]

    assert (by_process["code"], by_process["class"]) == ("card_busy", "node")
    assert f"pid {os.getpid()}" in by_process["cause"]
    assert "513 MiB" in by_memory["cause"]
    assert (missing["code"], missing["class"]) == ("card_missing", "node")
    assert not node.folder("7-1-a").exists()


def test_a_card_is_clean_when_the_run_has_left_it(node: LocalNode, serve: Serve, outsider):
    changed(node, 0, used_mib=300)
    node.run(serve, "7-1-a", "sleep 60", cards=node.uuids[:1], ranks=1)
    own = node.fact("7-1-a", "started.json")["ranks"][0]["pid"]
    foreign = outsider(["sleep", "60"]).pid
    both = [{"pid": own, "used_mib": 5000}, {"pid": foreign, "used_mib": 4000}]
    changed(node, 0, used_mib=9300, processes=both)

    running = serve.ok("clean", run="7-1-a")
    card = running["cards"][node.uuids[0]]
    assert not running["clean"]
    assert [p["pid"] for p in card["pids"]] == [own]
    assert [p["pid"] for p in card["foreign"]] == [foreign]
    assert card["pids"][0]["run"] == "7-1-a"

    serve.ok("stop", run="7-1-a", grace_s=1, reason="cancel")
    ended = serve.event("7-1-a", 5)
    assert ended["cards"][node.uuids[0]]["baseline_mib"] == 300
    assert not ended["cards"][node.uuids[0]]["clean"]
    changed(node, 0, used_mib=4300 + 512, processes=both[1:])
    settled = serve.ok("clean", run="7-1-a", settle=True)

    assert settled["clean"], "what others use is not this run's"
    changed(node, 0, used_mib=4300 + 513, processes=both[1:])
    assert not serve.ok("clean", run="7-1-a")["clean"]


def test_clean_removes_what_the_run_left_and_keeps_its_folder(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-zz9", "echo x > $TMPDIR/big; echo x > /dev/shm/torch_$GANGWAY_RUN_ID")
    serve.event("7-1-zz9", 5)
    shared = Path("/dev/shm/torch_7-1-zz9")
    assert shared.exists()

    serve.ok("clean", run="7-1-zz9", settle=True)

    assert not shared.exists()
    assert not (node.folder("7-1-zz9") / "tmp").exists()
    assert (node.folder("7-1-zz9") / "ended.json").exists()


def test_a_running_run_is_neither_settled_nor_cleaned(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "sleep 60")

    assert serve.ok("clean", run="7-1-a", settle=True) == {"clean": False, "cards": {}}

    assert (node.folder("7-1-a") / "tmp").exists()
    assert [found["run"] for found in serve.ok("look")["reports"]] == ["7-1-a"]
