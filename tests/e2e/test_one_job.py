"""From submit to finish over real sshd, with real processes: what a person would see."""

import hashlib
import os
from pathlib import Path

import pytest
from django.db import connection

from nodes import channel, clock, hearing
from nodes.models import Gpu, RunReport
from nodes.tasks import read_tail
from scheduling import logs, looks, reports
from scheduling.actors import person
from scheduling.models import Attempt, Lease, LogPiece, Part
from scheduling.services import jobs
from tests import builders
from tests.e2e.conftest import enrol, look
from tests.nodes.machines import until

pytestmark = pytest.mark.needs("sshd")


def run_folder(job) -> Path:
    part = Part.objects.select_related("node", "attempt").filter(attempt__job=job).last()
    return Path(part.node.root) / "runs" / part.attempt.run_id


def kept(job, rank: int = 0) -> bytes:
    return b"".join(bytes(p.data) for p in LogPiece.objects.filter(attempt__job=job, rank=rank))


def alive(marker: str) -> list[int]:
    """Pids of processes whose command line holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line and b"gangway-node.pyz" not in line:
                found.append(int(entry.name))
    return found


def test_a_job_runs_and_its_log_and_exit_code_come_back(alice, nodes, drive):
    job = builders.job(alice, gpus=2, command="echo hello from $GANGWAY_JOB_ID; exit 7")

    drive(job)

    assert job.state == "FAILED"
    assert kept(job) == f"hello from {job.pk}\n".encode()
    assert Attempt.objects.get(job=job).note == "Rank 0 ended with exit code 7."
    until(lambda: not Lease.objects.filter(freed_at=None).exists() or look(), what="cards free")


def test_strings_reach_the_process_unchanged(alice, nodes, drive):
    odd = 'it\'s "odd"\n$HOME `id` \\ ; ☂ é'
    job = builders.job(
        alice,
        command="#!/usr/bin/env python3\nimport os, sys\nsys.stdout.write(os.environ['ODD'])\n",
        env={"ODD": odd},
    )

    drive(job)

    assert job.state == "COMPLETED"
    assert kept(job).decode() == odd


def test_a_command_of_256_kib_works(alice, nodes, drive):
    filler = "# " + "x" * (256 * 1024 - 10) + "\n"
    job = builders.job(alice, command=filler + "echo ok")
    assert len(job.command.encode()) == 256 * 1024

    drive(job)

    assert kept(job) == b"ok\n"


def test_a_process_ended_by_a_signal_says_so(alice, nodes, drive):
    job = builders.job(alice, command="kill -11 $$")

    drive(job)

    assert Attempt.objects.get(job=job).note == "Rank 0 was ended by signal 11."


def test_a_workdir_that_does_not_exist_fails_the_job_with_its_name(alice, nodes, drive):
    job = builders.job(alice, workdir="/no/such/place", command="true")

    drive(job)

    assert job.state == "FAILED"
    assert "/no/such/place" in Attempt.objects.filter(job=job).last().note
    assert not Lease.objects.filter(freed_at=None).exists()


def test_a_job_over_its_time_limit_is_ended_by_its_node(alice, nodes, drive):
    job = builders.job(alice, command="sleep 60", time_limit_s=1)

    drive(job)

    assert job.state == "TIMEOUT"


def test_a_cancel_ends_the_whole_tree_with_all_that_escaped(alice, nodes, drive, evidence):
    mark = f"escapee-{os.getpid()}"
    script = f"""#!/usr/bin/env python3
import os, signal, subprocess, sys, time
sleeper = "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"
subprocess.Popen([sys.executable, "-c", sleeper, "{mark}"])
subprocess.Popen([sys.executable, "-c", sleeper, "{mark}"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", sleeper, "{mark}"], {{}})
    os._exit(0)
open({str(evidence)!r}, "w").write("up")
time.sleep(300)
"""
    job = builders.job(alice, command=script, grace_s=5)
    drive(job, "RUNNING")
    until(evidence.exists, what="the tree is up")
    until(lambda: len(alive(mark)) == 3, what="three escapees")

    jobs.cancel(person(alice), job, at=clock.now())
    drive(job)

    assert job.state == "CANCELLED"
    assert alive(mark) == []


def test_what_a_job_left_behind_at_its_own_end_is_ended_too(alice, nodes, drive):
    mark = f"left-behind-{os.getpid()}"
    command = f"setsid python3 -c 'import time; time.sleep(300)' {mark} & sleep 0.3; exit 0"
    job = builders.job(alice, command=command, grace_s=5)

    drive(job)

    assert job.state == "COMPLETED"
    assert alive(mark) == []


def test_a_gang_on_two_nodes_with_one_home_runs_once_on_each(alice, nodes, drive, evidence):
    command = (
        f"echo $PET_NNODES $PET_NODE_RANK $PET_NPROC_PER_NODE $PET_MASTER_ADDR >> {evidence}; "
        "echo rank $GANGWAY_FIRST_RANK"
    )
    job = builders.job(alice, gpus=16, nodes=2, command=command)

    drive(job)

    assert job.state == "COMPLETED"
    assert sorted(evidence.read_text().splitlines()) == [
        "2 0 8 127.0.6.1",
        "2 1 8 127.0.6.1",
    ]
    assert (kept(job, 0), kept(job, 8)) == (b"rank 0\n", b"rank 8\n")


def test_a_rank_that_fails_ends_the_other_node_too(alice, nodes, drive):
    command = "if [ $PET_NODE_RANK = 1 ]; then sleep 0.3; exit 5; fi; sleep 300"
    job = builders.job(alice, gpus=16, nodes=2, command=command, grace_s=5)

    drive(job)

    assert job.state == "FAILED"
    ends = list(
        Part.objects.values(
            "first_rank", "end", "exit_code", "exit_signal", "failed_rank", "exit_before_term"
        )
    )
    assert "Rank 8 ended with exit code 5" in Attempt.objects.get(job=job).note, ends


def test_one_process_a_card_with_its_own_rank_and_log(alice, nodes, drive):
    job = builders.job(
        alice, gpus=4, launch="per_gpu", command="echo $RANK of $WORLD_SIZE local $LOCAL_RANK"
    )

    drive(job)

    assert job.state == "COMPLETED", Attempt.objects.get(job=job).note
    assert [kept(job, rank) for rank in range(4)] == [
        f"{rank} of 4 local {rank}\n".encode() for rank in range(4)
    ]


def test_a_long_binary_log_is_read_while_it_grows_and_its_ends_are_kept(
    alice, nodes, drive, monkeypatch
):
    job = builders.job(alice, command="head -c 3000000 /dev/urandom; sleep 1; echo end")
    drive(job, "RUNNING")
    part = Part.objects.get(attempt__job=job)
    monkeypatch.setattr("nodes.reads._ask", direct_read)
    seen, offset = hashlib.sha256(), 0
    while offset < 3_000_000:
        piece = logs.read(job, offset=offset)
        seen.update(piece.data)
        offset = piece.next_offset
    whole = (run_folder(job) / "out.log").read_bytes()
    assert seen.hexdigest() == hashlib.sha256(whole[:offset]).hexdigest()

    drive(job)

    whole = (run_folder(job) / "out.log").read_bytes()
    pieces = list(LogPiece.objects.filter(attempt__job=job))
    assert [piece.offset for piece in pieces] == [0, len(whole) - 1024 * 1024]
    assert bytes(pieces[0].data) == whole[: 64 * 1024]
    assert bytes(pieces[1].data) == whole[-1024 * 1024 :]
    assert part.node.name in nodes


def direct_read(node, run_id, rank, offset, limit):
    return read_tail(node.pk, run_id, rank, offset, limit)


def test_a_card_somebody_else_uses_is_not_given(alice, nodes, drive, hosts):
    Gpu.objects.filter(node=nodes["b"]).update(foreign_use="mallory, pid 7, 900 MiB")
    Gpu.objects.filter(node=nodes["a"]).exclude(index=3).update(foreign_use="mallory, pid 7")
    job = builders.job(alice, command="echo $CUDA_VISIBLE_DEVICES")

    drive(job)

    assert kept(job).decode().strip() == Gpu.objects.get(node=nodes["a"], index=3).uuid


def test_a_run_of_a_lost_database_is_stopped_and_the_first_job_starts_again(
    alice, nodes, hosts, drive
):
    old = builders.job(alice, command="sleep 300", gpus=8, grace_s=5)
    drive(old, "RUNNING")
    part = Part.objects.select_related("node", "attempt").get(attempt__job=old)
    left = Path(part.node.root) / "live" / part.attempt.run_id
    channel.close_all()
    hearing.listen(None)
    forget_everything()

    bob = builders.shop().users["bob"]
    again = {name: enrol(name, host) for name, host in hosts.items()}
    hearing.listen(reports.heard)
    assert again[part.node.name].root == part.node.root
    until(lambda: not left.exists() or stop_strays(), what="the stray is stopped")
    first = builders.job(bob, command="echo again")
    drive(first)

    assert first.state == "COMPLETED"


def forget_everything() -> None:
    """What dropping and making the database anew leaves: nothing."""
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE nodes_node, auth_user, auth_group, scheduling_team, scheduling_pool, "
            "scheduling_priorityclass, nodes_wake RESTART IDENTITY CASCADE"
        )


def stop_strays() -> None:
    """What the workers do with a report of a run that no row knows."""
    look()
    for report in RunReport.objects.all():
        looks.stop_unknown(report.node_id, report.run_id)
