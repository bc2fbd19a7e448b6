"""`gangway-job`: what a job may ask about itself, from any language, without a network.

Owns the words of that command. Reads files of its own run and nothing else.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import List

from . import facts
from .paths import RunPaths

YES, NO, WRONG = 0, 1, 2
LATER = ("checkpoint", "progress")


def main(words: List[str]) -> int:
    """stopping: exit 0 and the seconds left once the run is asked to stop, else exit 1."""
    folder = os.environ.get("GANGWAY_RUN_DIR", "")
    if not folder:
        return wrong("GANGWAY_RUN_DIR is not set. Call gangway-job from inside a job.")
    if words == ["stopping"]:
        return stopping(Path(folder))
    if words and words[0] in LATER:
        return wrong("{} is not yet possible. Use stopping.".format(words[0]))
    return wrong("Say: gangway-job stopping.")


def stopping(folder: Path) -> int:
    paths = RunPaths(folder.parent.parent, folder.name)
    fact = facts.read(paths.stopping)
    if fact is None:
        return NO
    left_s = max(0.0, fact["kill_at_s"] - time.monotonic())
    sys.stdout.write("{:.1f}\n".format(left_s))
    return YES


def wrong(sentence: str) -> int:
    sys.stderr.write("gangway-job: {}\n".format(sentence))
    return WRONG
