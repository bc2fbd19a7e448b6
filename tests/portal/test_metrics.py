"""What a monitoring system reads: bounded, in known words, and for those who run the place."""

import json
import re
from pathlib import Path

from django.test import Client

from nodes.models import Gpu
from portal.api import metrics
from tests import builders

BOARD = Path(__file__).parents[2] / "docs/grafana.json"


def series(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_an_operator_reads_cards_nodes_and_jobs(root, alice, client_of):
    builders.node("a")
    builders.job(alice, gpus=1)
    Gpu.objects.filter(index=3).update(health="failed", facts={"temperature_c": 61, "power_w": "x"})

    answer = client_of(root).get("/metrics")

    text = answer.content.decode()
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'gangway_jobs{state="PENDING"} 1' in text
    assert 'gangway_node_up{Hostname="a"} 1' in text
    sick = [line for line in series(text) if line.startswith("gangway_gpu_health") and "3" in line]
    assert any(line.endswith("} 3") and 'gpu="3"' in line for line in sick)
    # Only card 3 told its temperature, and nobody's power was a number.
    assert len([line for line in series(text) if "GPU_TEMP" in line]) == 1
    assert "POWER_USAGE{" not in text
    assert all(re.fullmatch(r'[A-Za-z_]+\{([A-Za-z]+="[^"]*",?)+\} \S+', s) for s in series(text))


def test_others_read_nothing(alice, carol, client_of):
    builders.node("a")
    assert client_of(alice).get("/metrics").status_code == 403
    assert client_of(carol).get("/metrics").status_code == 403
    assert Client().get("/metrics").status_code == 401


def test_the_number_of_series_does_not_grow_with_jobs(root, alice, client_of):
    builders.node("a")
    before = len(series(client_of(root).get("/metrics").content.decode()))
    for _ in range(5):
        builders.job(alice, gpus=1)
    assert len(series(client_of(root).get("/metrics").content.decode())) == before + 1


def test_a_name_with_quotes_breaks_no_line():
    text = metrics.render([("gangway_jobs", {"state": 'a"b\\c\nd'}, 1.0)])
    assert text.splitlines()[-1] == r'gangway_jobs{state="a\"b\\c\nd"} 1'


def test_the_board_draws_what_there_is():
    told = {
        name
        for panel in json.loads(BOARD.read_text())["panels"]
        for target in panel["targets"]
        for name in re.findall(r"(?:gangway|DCGM)_\w+", target["expr"])
    }
    assert told == set(metrics.NAMES)
