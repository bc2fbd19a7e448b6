"""Figures and the answer they are given in: percentiles, the machine, one line of JSON."""

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Figures = Mapping[str, float]
NONE: Figures = {}


def percentile(values: Sequence[float], percent: float) -> float:
    """The least value that ``percent`` of all do not exceed (nearest rank).

    Raises ValueError when there are no values.
    """
    if not values:
        raise ValueError("There are no values to take a percentile of.")
    rank = max(1, math.ceil(len(values) * percent / 100))
    return sorted(values)[rank - 1]


def keeps(results: Mapping[str, Any], most: Figures, least: Figures) -> bool:
    """True if no result exceeds its ``most`` or falls below its ``least``; a missing one fails."""
    low_enough = all(name in results and results[name] <= most[name] for name in most)
    high_enough = all(name in results and results[name] >= least[name] for name in least)
    return low_enough and high_enough


def answer(
    bench: str, results: Mapping[str, Any], *, most: Figures = NONE, least: Figures = NONE
) -> dict[str, Any]:
    """What a measurement says: ``ok`` is that no result exceeds ``most`` or misses ``least``."""
    return {
        "bench": bench,
        "machine": machine(),
        "results": dict(results),
        "asked": {**most, **least},
        "ok": keeps(results, most, least),
    }


def line(said: Mapping[str, Any]) -> str:
    return json.dumps(said, separators=(",", ":"))


def machine() -> dict[str, Any]:
    """What the figures were measured on; ``load_1m`` tells whether it had other things to do."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cpus": os.cpu_count(),
        "cpu_model": _cpu_model(),
        "memory_mib": pages * page_bytes // 2**20,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1m": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    named = (text.partition(":")[2].strip() for text in lines if text.startswith("model name"))
    return next(named, platform.machine())
