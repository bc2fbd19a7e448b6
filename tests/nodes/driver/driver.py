"""The pretended libnvidia-ml.so.1: compiled here, its state written from the look-alike's.

Owns the flat file that libnvml.c reads. One state serves both, so a test can hold them together.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.needs import program

SOURCE = Path(__file__).with_name("libnvml.c")
NAME = "libnvidia-ml.so.1"
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def compiled(folder: Path) -> Path:
    """The library, built into ``folder`` under the name that nvidia-ml-py looks for."""
    library = folder / NAME
    own_name = f"-Wl,-soname,{NAME}"
    words = [program("cc"), "-std=gnu11", "-O1", "-fPIC", "-shared", "-fvisibility=hidden"]
    words += [*WARNINGS, own_name, "-pthread", "-o", str(library), str(SOURCE)]
    subprocess.run(words, check=True, capture_output=True, text=True)
    return library


def flat(state: dict[str, Any]) -> str:
    """A state of nodes/demo/nvml.py as lines of "key = value"."""
    lines = {"count": len(state["gpus"])} | {
        key: state[key] for key in ("driver", "error", "hang_s") if state.get(key)
    }
    for index, card in enumerate(state["gpus"]):
        lines |= {f"{index}.{key}": value for key, value in _of(card)}
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def _of(card: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in card.items():
        if key == "processes":
            yield key, len(value)
            for place, process in enumerate(value):
                yield f"process.{place}.pid", process["pid"]
                yield f"process.{place}.used_mib", process.get("used_mib", 0)
        elif key == "errors":
            yield from ((f"errors.{function}", number) for function, number in value.items())
        elif isinstance(value, list | tuple):
            yield from ((f"{key}.{place}", int(one)) for place, one in enumerate(value))
        elif value is not None:
            yield key, int(value) if isinstance(value, bool) else value
