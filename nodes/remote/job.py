"""`gangway-job`: what a job may ask and tell about itself, from any language, without a network.

Owns the words of that command. Reads and writes files of its own run and nothing else, but for one
look at the path of a checkpoint that is said to be done.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, NoReturn, Optional

from . import facts, progress
from .files import Fact
from .paths import RunPaths

YES, NO, WRONG = 0, 1, 2
MOST_FILES = 100_000
COUNT = 1 << 52


class Words(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write("{}: {}. {}: --help\n".format(self.prog, message, "See"))
        sys.exit(WRONG)


def main(words: List[str]) -> int:
    """The exit status: 0 yes, 1 no (not asked to stop; the checkpoint does not count), 2 wrong."""
    options = parsed(words)
    folder = os.environ.get("GANGWAY_RUN_DIR", "")
    if not folder:
        return wrong("GANGWAY_RUN_DIR is not set. Call gangway-job from inside a job.")
    paths = RunPaths(Path(folder).parent.parent, Path(folder).name)
    try:
        done: int = options.do(paths, options)
    except OSError as broken:
        return wrong("it could not be written down: {}.".format(broken))
    return done


def parsed(words: List[str]) -> argparse.Namespace:
    parser = Words(prog="gangway-job", description="What a job may ask and tell about itself.")
    verbs = parser.add_subparsers(metavar="stopping | checkpoint | progress", dest="verb")
    verbs.required = True
    verb = verbs.add_parser("stopping", help="exit 0 and the seconds left once asked to stop")
    verb.set_defaults(do=stopping)
    verb = verbs.add_parser("checkpoint", help="a checkpoint begins, or is complete")
    verb.add_argument("what", choices=("begin", "done"))
    verb.add_argument("--step", type=count, required=True)
    verb.add_argument("--path", help="what is written, or was; needed with done")
    verb.add_argument("--rank", type=count)
    verb.set_defaults(do=checkpoint)
    verb = verbs.add_parser("progress", help="a step is through")
    verb.add_argument("--step", type=count, required=True)
    verb.add_argument("--seconds", type=duration, required=True, help="that the step took")
    verb.add_argument("--rank", type=count)
    verb.add_argument("--comm-seconds", type=duration, help="of them in communication")
    verb.set_defaults(do=tell_progress)
    return parser.parse_args(words)


def count(word: str) -> int:
    value = int(word)
    if not 0 <= value < COUNT:
        raise argparse.ArgumentTypeError("{} is not a number from 0".format(word))
    return value


def duration(word: str) -> float:
    value = float(word)
    if not 0 <= value < COUNT:
        raise argparse.ArgumentTypeError("{} is not a time from 0".format(word))
    return value


def stopping(paths: RunPaths, options: argparse.Namespace) -> int:
    fact = facts.read(paths.stopping)
    if fact is None:
        return NO
    left_s = max(0.0, fact["kill_at_s"] - time.monotonic())
    sys.stdout.write("{:.1f}\n".format(left_s))
    return YES


def checkpoint(paths: RunPaths, options: argparse.Namespace) -> int:
    """Only what is there with something in it counts; a relative path is made a full one."""
    told: Fact = {"what": options.what, "step": options.step, "rank": rank_of(options)}
    path: Optional[Path] = Path(options.path).absolute() if options.path else None
    if options.what == "done":
        if path is None:
            return wrong("checkpoint done needs --path.")
        told["bytes"] = bytes_at(path)
        if not told["bytes"]:
            sys.stderr.write("gangway-job: nothing is at {}; it does not count.\n".format(path))
            return NO
    if path is not None:
        told["path"] = str(path)
        if not facts.words(told["path"]):
            return wrong("the path cannot be written as UTF-8 in 4,096 characters.")
    progress.tell(paths.progress, told)
    return YES


def tell_progress(paths: RunPaths, options: argparse.Namespace) -> int:
    told: Dict[str, Any] = {"what": "progress", "step": options.step, "rank": rank_of(options)}
    told["seconds"], told["comm_s"] = options.seconds, options.comm_seconds
    progress.tell(paths.progress, told)
    return YES


def rank_of(options: argparse.Namespace) -> int:
    """As given, else of the process, else the first one here."""
    if options.rank is not None:
        return int(options.rank)
    for name in ("RANK", "GANGWAY_FIRST_RANK"):
        word = os.environ.get(name, "")
        if word.isascii() and word.isdecimal():
            return int(word)
    return 0


def bytes_at(path: Path) -> int:
    """Bytes of a file, or of all files below a folder (of the first 100,000)."""
    if not path.is_dir():
        return path.stat().st_size if path.exists() else 0
    total = seen = 0
    for folder, _, names in os.walk(str(path)):
        for name in names:
            total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - no Path a file
            seen += 1
        if seen > MOST_FILES:
            break
    return total


def wrong(sentence: str) -> int:
    sys.stderr.write("gangway-job: {}\n".format(sentence))
    return WRONG
