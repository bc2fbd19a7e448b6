"""The shipped files themselves."""

import ast
import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

from nodes import cargo
from nodes.demo import nvml as look_alike
from nodes.remote.verbs import VERBS

SOURCES = sorted(cargo.REMOTE.glob("*.py"))
PAGE = Path(cargo.__file__).parents[1] / "docs/node-protocol.md"
VARIABLES = Path(cargo.__file__).parents[1] / "docs/job-environment.md"


def imported(source: Path) -> set[str]:
    """First words of what a file imports absolutely."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").split(".")[0])
    return found


def test_what_is_shipped_is_python_3_8_and_standard_library_only():
    for source in [*SOURCES, Path(look_alike.__file__)]:
        ast.parse(source.read_text(), feature_version=(3, 8))
        assert imported(source) <= sys.stdlib_module_names, source
        assert "__future__" in imported(source) or not imported(source), source


def test_the_same_sources_give_the_same_bytes_whenever_they_are_packed():
    first = cargo.build()
    cargo.build.cache_clear()

    assert cargo.build() == first
    assert len(first.hash) == 16
    assert [file.name for file in first.files] == ["gangway-node.pyz", "pynvml.py", "gangway-job"]


def test_a_changed_file_changes_the_hash(monkeypatch):
    before = cargo.build().hash
    monkeypatch.setattr(cargo, "JOB", cargo.JOB + "# changed\n")
    cargo.build.cache_clear()
    after = cargo.build().hash
    monkeypatch.undo()
    cargo.build.cache_clear()

    assert after != before
    assert cargo.build().hash == before


def test_the_zipapp_holds_the_modules_and_nothing_of_the_moment():
    packed = cargo.build().files[0].data

    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        times = {entry.date_time for entry in archive.infolist()}
        names = {entry.filename for entry in archive.infolist()}

    assert times == {cargo.LONG_AGO}
    assert names == {"__main__.py"} | {f"gangway_node/{source.name}" for source in SOURCES}
    assert hashlib.sha256(cargo.zipapp()).digest() == hashlib.sha256(packed).digest()


def test_a_wrong_command_line_is_two_lines_and_no_traceback(node):
    done = subprocess.run(
        [sys.executable, "-I", node.bin / "gangway-node.pyz", "dance"],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_the_protocol_page_names_every_verb_and_file():
    page = PAGE.read_text()
    names = [f"`{verb}`" for verb in VERBS]
    names += ["order.json", "claim.json", "started.json", "stop.json", "limit.json", "ended.json"]
    names += ["stopping.json", "seen.json", "gap.json", "gate.json", "owner.json"]

    assert [name for name in names if name not in page] == []


def test_the_environment_page_names_every_variable():
    source = (cargo.REMOTE / "environment.py").read_text()
    page = VARIABLES.read_text()
    strings = {n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant)}
    names = {s for s in strings if isinstance(s, str) and s.isupper() and ":" not in s}

    assert "GANGWAY_RUN_ID" in names
    assert sorted(name for name in names if f"`{name}`" not in page) == []
