"""CPU seconds by process of a portal: what a job costs, also on a machine that does other things.

A process's children count as it: those that live, by their parent, those that ended, by what
the kernel added to their parent's account.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def seconds(pids: Mapping[str, int], proc: Path = Path("/proc")) -> dict[str, float]:
    """Name -> CPU seconds so far of that process and all below it."""
    table = dict(_table(proc))
    return {name: round(_sum(pid, table), 2) for name, pid in pids.items() if pid in table}


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The difference; a process that is only in one of the two is left out."""
    return {name: round(after[name] - before[name], 2) for name in before if name in after}


def _sum(pid: int, table: Mapping[int, tuple[int, float]]) -> float:
    below = [child for child, (parent, _) in table.items() if parent == pid]
    return table[pid][1] + sum(_sum(child, table) for child in below)


def _table(proc: Path) -> Iterator[tuple[int, tuple[int, float]]]:
    """(pid, (parent, CPU seconds with its ended children)) of every process there is."""
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        ticks = sum(int(count) for count in after_name[11:15])
        yield int(folder.name), (int(after_name[1]), ticks / TICKS_A_SECOND)
