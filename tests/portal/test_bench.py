"""What the measurements say is right: the arithmetic, the counting, and one short real run."""

import json
import os
import subprocess
import sys
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from portal.bench import crowd, effort, figures, handing, remains, tally, throughput
from portal.bench.stage import Stage, StageError, running
from portal.supervisor import home
from portal.supervisor.options import BASE_DIR


def asked(job: int, *, ranks: int = 1, code: int = 0, cancelled: bool = False, state="COMPLETED"):
    return tally.Asked(job, f"r0-{job}", ranks, code, cancelled, state)


def lines(*written: str) -> list[tally.Line]:
    return tally.read("\n".join(written))


WHOLE = ("start 1-1-aa 0 10.0 GPU-1", "end 1-1-aa 0 12.0 GPU-1")


def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed():
    values = [float(n) for n in range(100, 0, -1)]

    assert figures.percentile(values, 50) == 50
    assert figures.percentile(values, 95) == 95
    assert figures.percentile(values, 100) == 100
    assert figures.percentile([0.25], 95) == 0.25
    with pytest.raises(ValueError, match="no values"):
        figures.percentile([], 50)


def test_the_answer_is_one_line_of_json_with_what_was_asked_beside_what_was_found():
    text = figures.line(
        figures.answer("latency", {"p50_s": 0.2, "p95_s": 0.9}, most={"p95_s": 0.8})
    )
    said = json.loads(text)

    assert "\n" not in text
    assert list(said) == ["bench", "machine", "results", "asked", "ok"]
    assert said["asked"] == {"p95_s": 0.8}
    assert said["machine"]["cpus"] == os.cpu_count()
    assert said["ok"] is False


def test_a_handover_is_told_by_its_median_with_the_worst_beside_it():
    said = handing.results({1: [2.5, 2.4, 9.0], 8: [4.0, 3.0, 5.0]}, [0.4, 0.5, 0.6])

    assert said["winner_start_s"] == 2.5
    assert said["winner_start_most_s"] == 9.0
    assert said["eight_victims_s"] == 4.0
    assert figures.answer("preempt", said, most=handing.ASKED)["ok"] is True


@pytest.mark.parametrize(
    ("results", "ok"), [({"rate": 20.0}, True), ({"rate": 19.9}, False), ({}, False)]
)
def test_what_must_be_reached_is_reached_or_not(results, ok):
    assert figures.keeps(results, {}, {"rate": 20.0}) is ok


def test_a_job_that_did_all_it_should_is_neither_lost_nor_doubled():
    written = lines(*WHOLE)

    assert tally.lost([asked(1)], written) == []
    assert tally.doubled([asked(1)], written) == []
    assert tally.overlapping(written) == []


def test_a_job_that_never_ended_or_that_nobody_knows_is_lost():
    found = tally.lost([asked(1, state="RUNNING"), asked(2, state="")], [])

    assert found == ["job 1 (r0-1) is RUNNING", "job 2 (r0-2) is unknown to the portal"]


def test_a_job_called_completed_without_its_end_in_the_file_is_lost():
    started_only = lines(WHOLE[0])
    half_a_gang = lines(WHOLE[0], WHOLE[1], "start 1-1-aa 1 10.1 GPU-2")

    assert len(tally.lost([asked(1)], started_only)) == 1
    assert len(tally.lost([asked(1, ranks=2)], half_a_gang)) == 1


def test_a_job_ends_as_it_was_asked_to_or_is_lost():
    assert tally.lost([asked(1, code=3, state="FAILED")], []) == []
    assert tally.lost([asked(1, cancelled=True, state="CANCELLED")], []) == []
    assert tally.lost([asked(1, cancelled=True)], lines(*WHOLE)) == []
    assert len(tally.lost([asked(1, state="FAILED")], lines(*WHOLE))) == 1
    assert len(tally.lost([asked(1, state="CANCELLED")], [])) == 1


def test_a_planted_second_start_is_found():
    written = lines(*WHOLE, WHOLE[0])

    assert tally.doubled([asked(1)], written) == ["run 1-1-aa rank 0 started 2 times"]


def test_a_job_done_by_two_attempts_is_found_and_a_stopped_attempt_is_no_second_one():
    again = ("start 1-2-bb 0 20.0 GPU-1", "end 1-2-bb 0 22.0 GPU-1")
    stopped = ("start 1-2-bb 0 20.0 GPU-1", "stopped 1-2-bb 0 20.5 GPU-1")

    assert tally.doubled([asked(1)], lines(*WHOLE, *again)) == ["job 1 was done 2 times"]
    assert tally.doubled([asked(1)], lines(*WHOLE, *stopped)) == []


def test_one_key_that_became_two_jobs_is_found():
    twins = [tally.Asked(n, "r0-0", 1, 0, False, "COMPLETED") for n in (1, 2)]

    assert tally.doubled(twins, []) == ["r0-0 became 2 jobs"]


def test_two_runs_on_one_card_at_once_are_found_and_one_after_the_other_is_none():
    early = lines(*WHOLE, "start 2-1-bb 0 11.5 GPU-1", "end 2-1-bb 0 13.0 GPU-1")
    late = lines(*WHOLE, "start 2-1-bb 0 12.5 GPU-1", "end 2-1-bb 0 13.0 GPU-1")
    beside = lines(*WHOLE, "start 2-1-bb 0 11.5 GPU-2", "end 2-1-bb 0 13.0 GPU-2")

    assert tally.overlapping(early) == ["2-1-bb began on GPU-1 0.500 s before 1-1-aa left"]
    assert tally.overlapping(late) == tally.overlapping(beside) == []


def test_half_a_line_in_the_file_is_left_out():
    assert tally.read("start 1-1-aa 0 10.0 GPU-1\nend 1-1") == lines(WHOLE[0])


def test_a_process_that_a_run_left_behind_is_found(tmp_path):
    mark = {"GANGWAY_RUN_DIR": str(tmp_path / "runs/9-1-cc"), "GANGWAY_RUN_ID": "9-1-cc"}
    left = subprocess.Popen(["sleep", "600"], env={**os.environ, **mark})
    try:
        assert remains.processes(tmp_path) == [f"process {left.pid} of run 9-1-cc"]
        assert remains.processes(tmp_path / "elsewhere") == []
    finally:
        left.kill()
        left.wait()


def test_one_seed_plays_the_same_rounds_and_kills_each_process_about_equally_often():
    names = ["web", "control", "nodes"]

    assert crowd.rounds(5, 7, names) == crowd.rounds(5, 7, names)
    assert crowd.rounds(5, 7, names) != crowd.rounds(6, 7, names)
    kills = [one.kill for one in crowd.rounds(5, 9, names)]
    assert {name: kills.count(name) for name in names} == dict.fromkeys(names, 3)


def test_the_cpu_time_of_a_process_counts_what_its_children_took():
    before = effort.seconds({"us": os.getpid()})
    subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)
    after = effort.seconds({"us": os.getpid(), "nobody": 2**22 + 1})

    assert effort.spent(before, after)["us"] > 0.05
    assert "nobody" not in after


def test_more_slots_than_the_demos_teams_may_hold_are_refused():
    assert throughput.nodes_for(32) == 4
    with pytest.raises(StageError, match="33 slots"):
        throughput.nodes_for(33)


def test_without_a_running_portal_the_measurement_says_how_to_start_one(tmp_path):
    with pytest.raises(StageError, match="make up"):
        running(tmp_path)

    home.write_private(tmp_path / "demo.json", {"url": "http://127.0.0.1:1", "users": {}})
    with pytest.raises(StageError, match="names no alice"):
        Stage(tmp_path, "http://127.0.0.1:1").client("alice")


def test_explain_ends_with_its_answer_as_one_line_of_json():
    out = StringIO()
    call_command("bench", "explain", "--worlds", "5", "--seed", "3", stdout=out, stderr=StringIO())

    said = json.loads(out.getvalue().splitlines()[-1])
    assert (said["bench"], said["results"]["worlds"]) == ("explain", 5)
    assert said["results"]["reasons_true_percent"] == 100.0


@pytest.mark.parametrize("words", [["faults", "--kill", "web,nobody"], ["latency", "--jobs", "0"]])
def test_options_that_cannot_be_meant_are_refused_with_the_valid_ones(words):
    with pytest.raises(CommandError, match=r"give some of web|from 1 to"):
        call_command("bench", *words, stdout=StringIO(), stderr=StringIO())


def test_two_rounds_of_killing_lose_double_and_leave_nothing():
    words = ["faults", "--rounds", "2", "--seed", "3", "--kill", "control,nodes"]
    unset = {"DATABASE_URL": "", "REDIS_URL": ""}
    done = subprocess.run(
        [sys.executable, "manage.py", "bench", *words],
        cwd=BASE_DIR,
        env={**os.environ, **unset},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    results = said["results"]
    assert (results["lost"], results["doubled"], results["leaked"]) == (0, 0, 0), done.stderr
    assert (results["rounds"], results["kills"], results["jobs"]) == (2, 2, 10)
    assert said["ok"] is True
