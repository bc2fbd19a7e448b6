"""What is left when every job has ended: claims in the ledger, and processes on this machine."""

from pathlib import Path
from typing import Any

import psycopg

MARKER = b"GANGWAY_RUN_ID="

# Each finds rows that must not be there once all jobs have ended and every node was looked at.
LEFT = {
    "live lease": "SELECT id, state FROM scheduling_lease WHERE freed_at IS NULL",
    "live part": "SELECT id, attempt_id FROM scheduling_part WHERE gone_at IS NULL",
    "unsettled part": "SELECT id, node_id FROM scheduling_part WHERE settled_at IS NULL",
    "live attempt": "SELECT id, job_id FROM scheduling_attempt WHERE ended_at IS NULL",
    "held card": "SELECT id, held_milli FROM scheduling_card "
    "WHERE held_milli <> 0 OR held_mib <> 0",
    "withheld card": "SELECT id, quarantine_note FROM scheduling_card "
    "WHERE quarantined_at IS NOT NULL",
    "untaken report": "SELECT id, run_id FROM nodes_runreport WHERE taken_at IS NULL",
}


def claims(database: psycopg.Connection[Any]) -> list[str]:
    """One sentence for each row that still claims something."""
    return [
        f"{what} {row[0]} ({row[1]})"
        for what, question in LEFT.items()
        for row in database.execute(question)
    ]


def processes(root: Path) -> list[str]:
    """One sentence for each process whose environment names a run below ``root``."""
    return [
        f"process {folder.name} of run {run}"
        for folder in Path("/proc").iterdir()
        if folder.name.isdecimal() and (run := _run_of(folder, root))
    ]


def _run_of(folder: Path, root: Path) -> str:
    try:
        environment = (folder / "environ").read_bytes().split(b"\0")
    except OSError:  # it has just ended, or is somebody else's
        return ""
    if not any(entry.startswith(b"GANGWAY_RUN_DIR=" + bytes(root)) for entry in environment):
        return ""
    named = (entry for entry in environment if entry.startswith(MARKER))
    return next(named, b"").removeprefix(MARKER).decode(errors="replace")
