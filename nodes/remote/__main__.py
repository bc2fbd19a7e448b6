"""The program: `serve`, `once` or `job`, with the node's root and whose it is.

Owns the command line. `python3 -I gangway-node.pyz serve --root ROOT --instance UUID`.
"""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path
from typing import List

from . import job
from .node import Node, bin_folder
from .nvmlchild import Nvml, Source
from .paths import Root
from .protocol import Refusal, line_of
from .serve import once, serve


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["job"]:
        return job.main(words[1:])
    options = parsed(words)
    try:
        node = made(options)
        if options.take_over:
            node.take_over()
    except (Refusal, OSError) as broken:
        return give_up(broken)
    # keepers are forked from here: what is never collected again stays shared with them
    gc.collect()
    gc.freeze()
    (serve if options.mode == "serve" else once)(node)
    return 0


def parsed(words: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gangway-node")
    parser.add_argument("mode", choices=("serve", "once"))
    parser.add_argument("--root", required=True, help="folder of this node's state")
    parser.add_argument("--instance", required=True, help="UUID of the portal that owns it")
    parser.add_argument("--nvml-module", help="a module with pynvml's functions")
    parser.add_argument("--nvml-lib", help="the NVML library to load")
    parser.add_argument("--take-over", action="store_true", help="own a root of another portal")
    return parser.parse_args(words)


def made(options: argparse.Namespace) -> Node:
    root = Path(options.root).expanduser().absolute()
    bin_dir = bin_folder()
    module = Path(options.nvml_module) if options.nvml_module else bin_dir / "pynvml.py"
    library = Path(options.nvml_lib) if options.nvml_lib else None
    lock = Root(root).probe_lock if options.mode == "once" else None
    nvml = Nvml(Source(module, library, lock))
    return Node(root, options.instance, bin_dir.name, bin_dir, nvml)


def give_up(broken: Exception) -> int:
    no = broken if isinstance(broken, Refusal) else None
    error = no.as_json() if no else {"code": "node_error", "class": "node", "cause": str(broken)}
    sys.stdout.write(line_of({"id": None, "error": error}).decode("ascii"))
    return 1


if __name__ == "__main__":
    sys.exit(main())
