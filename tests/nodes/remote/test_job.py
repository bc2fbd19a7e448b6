"""What reaches the process: its command, environment, folder; and what it may ask."""

import base64
import json
import subprocess
from pathlib import Path

from .conftest import LocalNode, Serve, eventually, order

AWKWARD = 'it\'s "quoted" $HOME `id` \\ \n new line\ttab ünïcödé 漢字 🚀 ; rm -rf / & | > *'
DUMP = """#!/usr/bin/env python3
import json, os, sys
print(json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "stdin": sys.stdin.read(),
                  "sid": os.getsid(0) == os.getpid(), "group": os.getpgrp() == os.getpid()}))
"""


def seen(node: LocalNode, serve: Serve, run: str, name: str = "out.log") -> dict:
    serve.event(run, 5)
    return json.loads(node.log(run, name))


def test_quotes_newlines_and_unicode_reach_the_process_unchanged(node: LocalNode, serve: Serve):
    command = f"printf %s \"$GREETING\"; cat <<'END'\n{AWKWARD}\nEND\n"
    node.run(serve, "7-1-a", command, env={"GREETING": AWKWARD})

    ended = serve.event("7-1-a", 5)

    assert base64.b64decode(ended["head"]).decode() == f"{AWKWARD}{AWKWARD}\n"


def test_a_command_of_256_kib_runs_and_a_longer_one_is_refused(node: LocalNode, serve: Serve):
    command = "echo through\n#".ljust(256 * 1024, "x")
    node.run(serve, "7-1-a", command)

    assert serve.event("7-1-a", 5)["exit"] == 0
    assert node.log("7-1-a") == b"through\n"
    error = serve.ask("prepare", order=order("7-2-b", command + "x"))["error"]
    assert "262145" in error["cause"]


def test_a_job_starts_clean_with_its_own_folder_session_and_no_input(
    node: LocalNode, serve: Serve, tmp_path: Path
):
    node.environment["SECRET_OF_THE_LOGIN"] = "x"
    node.run(node.serve(), "7-1-a", DUMP, workdir=str(tmp_path), env={"SEED": "1"})

    job = seen(node, serve, "7-1-a")

    assert (job["cwd"], job["stdin"]) == (str(tmp_path), "")
    assert job["sid"]
    assert job["group"]
    assert "SECRET_OF_THE_LOGIN" not in job["env"]
    assert job["env"]["SEED"] == "1"
    assert job["env"]["TMPDIR"] == str(node.folder("7-1-a") / "tmp")
    assert job["env"]["PATH"].split(":")[-1] == str(node.bin)


def test_per_node_speaks_torchruns_names(node: LocalNode, serve: Serve):
    node.run(
        serve,
        "7-1-a",
        DUMP,
        cards=node.uuids[2:4],
        ranks=2,
        nnodes=2,
        node_rank=1,
        first_rank=8,
        world_size=10,
        master_addr="10.0.0.1",
        master_port=29500,
        env={"CUDA_VISIBLE_DEVICES": "all", "GANGWAY_JOB_ID": "forged"},
    )

    env = seen(node, serve, "7-1-a")["env"]

    uuids = ",".join(node.uuids[2:4])
    assert {name: env[name] for name in env if name.startswith(("GANGWAY", "CUDA", "PET"))} == {
        "GANGWAY_RUN_ID": "7-1-a",
        "GANGWAY_JOB_ID": "7",
        "GANGWAY_ATTEMPT": "1",
        "GANGWAY_RUN_DIR": str(node.folder("7-1-a")),
        "GANGWAY_NNODES": "2",
        "GANGWAY_NODE_RANK": "1",
        "GANGWAY_WORLD_SIZE": "10",
        "GANGWAY_FIRST_RANK": "8",
        "GANGWAY_GPUS": uuids,
        "GANGWAY_GRACE_S": "5",
        "GANGWAY_STOP_FILE": str(node.folder("7-1-a") / "stopping.json"),
        "GANGWAY_RESTART_COUNT": "0",
        "CUDA_VISIBLE_DEVICES": uuids,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "2",
        "PET_MASTER_ADDR": "10.0.0.1",
        "PET_MASTER_PORT": "29500",
    }
    assert "RANK" not in env


def test_per_gpu_starts_one_process_a_card_with_its_rank_and_log(node: LocalNode, serve: Serve):
    node.run(
        serve,
        "7-1-a",
        DUMP,
        launch="per_gpu",
        device_ids="index",
        cards=node.uuids[5:7],
        ranks=2,
        first_rank=4,
        world_size=6,
    )

    first, second = (seen(node, serve, "7-1-a", f"out.{rank}.log")["env"] for rank in (4, 5))

    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES")
    assert [first[name] for name in names] == ["4", "0", "6", "2", "5,6"]
    assert [second[name] for name in names] == ["5", "1", "6", "2", "5,6"]
    assert "PET_NNODES" not in first


def test_a_command_that_cannot_be_started_says_so_in_its_log(node: LocalNode, serve: Serve):
    node.run(serve, "7-1-a", "#!/no/such/interpreter\n")

    assert serve.event("7-1-a", 5)["exit"] == 127
    assert b"could not be started" in node.log("7-1-a")


def test_gangway_job_stopping_answers_only_once_the_run_is_asked_to_stop(
    node: LocalNode, serve: Serve
):
    command = """\
gangway-job stopping && exit 90
gangway-job dance; test $? = 2 || exit 91
trap 'gangway-job stopping > left; exit 7' TERM
echo up; while :; do sleep 0.02; done
"""
    node.run(serve, "7-1-a", command)
    eventually(lambda: b"up" in node.log("7-1-a"))

    serve.ok("stop", run="7-1-a", grace_s=30, reason="preempt")

    assert serve.event("7-1-a", 5)["exit"] == 7
    left_s = float((node.folder("7-1-a") / "work" / "left").read_text())
    assert 20 < left_s <= 30


def test_gangway_job_outside_a_job_says_what_it_needs(node: LocalNode):
    done = subprocess.run([node.bin / "gangway-job", "stopping"], capture_output=True, text=True)

    assert done.returncode == 2
    assert "inside a job" in done.stderr
