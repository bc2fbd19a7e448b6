"""The client can be copied anywhere: it needs Python and nothing else."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from portal import client

FOLDER = Path(client.__file__).parent


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.name)
def test_it_imports_the_standard_library_and_its_own_modules_only(file):
    for found in ast.walk(ast.parse(file.read_text())):
        if isinstance(found, ast.Import):
            names = [alias.name for alias in found.names]
        elif isinstance(found, ast.ImportFrom):
            assert found.level <= 1, f"{file.name} reaches out of its folder"
            names = [found.module] if found.level == 0 else []
        else:
            continue
        for name in names:
            assert name.partition(".")[0] in sys.stdlib_module_names, f"{file.name}: {name}"


def test_it_runs_where_nothing_is_installed(tmp_path):
    (tmp_path / "portal").mkdir()
    (tmp_path / "portal" / "client").symlink_to(FOLDER)
    program = "import sys; sys.path[:0] = [sys.argv.pop(1)]; from portal.client.main import main"

    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{program}; main(['--help'])", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "submit" in ran.stdout
