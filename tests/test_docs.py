"""Documents that can be checked are checked; a failure prints the text to paste."""

import re
from pathlib import Path

import pytest

from scheduling.states import MOVES

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])


def lifecycle() -> str:
    rows = "\n".join(f"{a:<9} {event:<14} {b}" for (a, event), b in MOVES.items())
    return f"```text\n{rows}\n```"


def test_the_lifecycle_page_is_the_table_of_moves():
    page = (ROOT / "docs/job-lifecycle.md").read_text()
    assert lifecycle() in page, f"Paste this into docs/job-lifecycle.md:\n{lifecycle()}"


def test_every_setting_is_documented_and_every_documented_one_exists():
    sources = "\n".join(
        path.read_text()
        for room in ("portal", "scheduling", "nodes")
        for path in (ROOT / room).rglob("*.py")
    )
    read = set(re.findall(r'"(GANGWAY_[A-Z_]+|DATABASE_URL|REDIS_URL)"', sources))
    inner = {name for name in read if name.startswith(("GANGWAY_FAKE", "GANGWAY_TEST"))}
    job_side = set(re.findall(r"GANGWAY_[A-Z_]+", (ROOT / "docs/job-environment.md").read_text()))
    page = (ROOT / "docs/configuration.md").read_text()
    named = set(re.findall(r"`(GANGWAY_[A-Z_]+|DATABASE_URL|REDIS_URL)`", page))
    client = {"GANGWAY_TOKEN", "GANGWAY_CONFIG"}
    assert read - inner - job_side - named - client == set()
    assert named - read == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_named_on_a_page_exists(page):
    named = re.findall(r"`((?:portal|scheduling|nodes|tests|docs)/[\w./]+\.\w+)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []
