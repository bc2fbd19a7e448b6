"""The examples of docs/job-contract.md keep what the page says."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from .conftest import LocalNode, Serve, eventually

PAGE = Path(__file__).parents[3] / "docs" / "job-contract.md"
SECTIONS = {
    title: re.findall(r"```(bash|python)\n(.*?)```", body, re.DOTALL)
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
}
EXAMPLES = [(title, *block) for title, blocks in SECTIONS.items() for block in blocks]
NEEDS = {"A PyTorch loop": "torch"}


def command_of(title: str) -> str:
    (language, text) = SECTIONS[title][0]
    if language == "bash":
        return text
    if title == "Python":
        return f"#!{shutil.which('python3')}\n{text}"
    return f"#!/bin/bash\ntrap : TERM\npython3 - <<'END'\n{text}\nEND\n"


@pytest.mark.parametrize(("title", "language", "text"), EXAMPLES, ids=lambda value: value[:20])
def test_every_example_can_be_read_by_its_language(title, language, text):
    if language == "python":
        compile(text, title, "exec")
    else:
        subprocess.run(["bash", "-n"], input=text.encode(), check=True)


def test_the_examples_save_when_asked_and_go_on_from_there(
    node: LocalNode, serve: Serve, tmp_path: Path
):
    """All whose libraries are here; each is asked to leave, and ends in its second attempt."""
    titles = ["A shell script", "Python", *NEEDS]
    there = [t for t in titles if t not in NEEDS or importlib.util.find_spec(NEEDS[t])]
    for number, title in enumerate(there):
        folder = tmp_path / str(number)
        folder.mkdir()
        env = {"STEPS": "40", "PATH": os.environ["PATH"]}
        order = {"workdir": str(folder), "env": env, "signal_to": "rank0", "grace_s": 20}
        if title == "Python":
            order["signal_to"] = "group"
        first, second = f"{number + 1}-1-a", f"{number + 1}-2-a"
        node.run(serve, first, command_of(title), **order)
        eventually(lambda first=first: listens(node, first))
        serve.ok("stop", run=first, grace_s=20, reason="preempt", to=order["signal_to"])
        ended = serve.event(first, 5)
        assert ended["progress"] is not None, node.log(first)
        (saved,) = ended["progress"]["checkpoints"]
        assert 0 < saved["step"] < 40, title
        assert ended["exit"] == 0, (title, node.log(first))

        resumed = {"step": saved["step"], "path": saved["path"]}
        node.run(serve, second, command_of(title), restarts=1, checkpoint=resumed, **order)
        assert serve.event(second, 5)["exit"] == 0, node.log(second)
        assert serve.event(second, 5)["ran_s"] < ended["ran_s"] + 40 * 0.2


def listens(node: LocalNode, run: str) -> bool:
    """Has its leader set a handler for TERM by now?"""
    leader = node.fact(run, "started.json")["ranks"][0]["pid"]
    status = Path(f"/proc/{leader}/status").read_text()
    caught = int(re.search(r"SigCgt:\s+(\w+)", status)[1], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)
