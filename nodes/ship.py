"""Puts the cargo on a node, once per content hash, and knows the commands that start it.

One constant command does it all: it reads a program and its data as JSON from stdin, so no path
ever stands in a shell string but the root's, which is quoted. The folder is written beside and
renamed, hence whole or absent. A new file of the cargo is a matter of `cargo.build`.
"""

import base64
import json
import shlex
from typing import Any

from .cargo import Cargo
from .errors import EnrolmentFailed, NodeUnreachable
from .models import Node
from .wire import Done, Wire

LEAST_PYTHON = (3, 8)
SHIP_LIMIT_S = 30.0
RUNNER = "gangway-node.pyz"

BOOTSTRAP = (
    "python3 -I -c 'import sys,json;"
    "q=json.loads(sys.stdin.readline());"
    'exec(q.pop("program"),{"q":q})\''
)

LOOK = """
import os, json, sys
path = os.path.expanduser(q["root"])
there = os.path.isdir(os.path.join(path, "bin", q["hash"]))
print(json.dumps({"python": sys.version_info[:3], "there": there, "root": path}))
"""

UNPACK = """
import os, sys, json, base64, shutil, compileall
os.umask(0o077)
bin = os.path.join(q["root"], "bin")
os.makedirs(bin, exist_ok=True)
whole = os.path.join(bin, q["hash"])
part = "%s.%d.part" % (whole, os.getpid())
shutil.rmtree(part, ignore_errors=True)
os.makedirs(part)
for name, text, mode in q["files"]:
    path = os.path.join(part, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(base64.b64decode(text))
    os.chmod(path, mode)
compileall.compile_dir(part, quiet=2, force=True)
try:
    os.rename(part, whole)
except OSError:
    if not os.path.isdir(whole):
        raise
    shutil.rmtree(part, ignore_errors=True)
print(json.dumps({"there": True}))
"""


def ask_python(wire: Wire, program: str, **question: Any) -> dict[str, Any]:
    """Run one of our programs under the node's python3; it prints one JSON object.

    Raises EnrolmentFailed when the node has no python3, NodeUnreachable for anything else.
    """
    line = json.dumps({**question, "program": program}) + "\n"
    done = wire.run(BOOTSTRAP, stdin=line.encode(), timeout_s=SHIP_LIMIT_S)
    if done.status == 127:
        raise EnrolmentFailed(
            f"{wire.where} has no python3 on the account's PATH.",
            next_step="Install it there (Debian: apt-get install python3), version 3.8 or later.",
        )
    return _object(done, wire.where)


def _object(done: Done, where: str) -> dict[str, Any]:
    try:
        said = json.loads(done.stdout)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        raise NodeUnreachable(
            f"{where} ended a command with status {done.status}, saying: {words[-1][:300]}.",
            next_step="Check the account's login shell, its rights and the free space there.",
        )
    return said


def ensure(wire: Wire, root: str, cargo: Cargo) -> None:
    """Have the cargo in ``<root>/bin/<hash>/``: one cheap command, or two when it is new there.

    Raises EnrolmentFailed for a python3 before 3.8.
    """
    seen = ask_python(wire, LOOK, root=root, hash=cargo.hash)
    check_python(seen, wire.where)
    if seen.get("there") is not True:
        files = [(f.name, base64.b64encode(f.data).decode(), f.mode) for f in cargo.files]
        ask_python(wire, UNPACK, root=root, hash=cargo.hash, files=files)


def check_python(seen: dict[str, Any], where: str) -> None:
    version = seen.get("python")
    if not isinstance(version, list) or version < list(LEAST_PYTHON):
        shown = ".".join(map(str, version)) if isinstance(version, list) else "unknown"
        raise EnrolmentFailed(
            f"{where} has Python {shown}; the runner needs 3.8 or later.",
            next_step="Put a newer python3 first on the account's PATH there.",
        )


def runner_command(
    node: Node, cargo_hash: str, mode: str, *, instance: str, take_over: bool = False
) -> str:
    """The command that starts the runner on ``node``: ``mode`` is serve or once."""
    words = ["python3", "-I", f"{node.root}/bin/{cargo_hash}/{RUNNER}", mode]
    words += ["--root", node.root, "--instance", instance]
    if node.nvml_module:
        words += ["--nvml-module", node.nvml_module]
    elif node.nvml_library:
        words += ["--nvml-lib", node.nvml_library]
    if take_over:
        words.append("--take-over")
    return shlex.join(words)
