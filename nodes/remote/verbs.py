"""Every verb a node understands, and the one way in for serve and once.

Owns the table. A new verb: one line here, one paragraph in docs/node-protocol.md.
"""

from __future__ import annotations

from types import GeneratorType
from typing import Callable, Dict, Union

from .claim import go
from .clean import clean
from .look import hello, look, tail
from .node import Node
from .prepare import prepare
from .probe import probe, reach
from .protocol import Answer, Args, Refusal, check_version, shown
from .stop import extend, stop
from .waiting import Steps

Verb = Callable[[Node, Args], Union[Answer, Steps]]

VERBS: Dict[str, Verb] = {
    "hello": hello,
    "prepare": prepare,
    "go": go,
    "stop": stop,
    "extend": extend,
    "look": look,
    "tail": tail,
    "clean": clean,
    "probe": probe,
    "reach": reach,
}


def answering(node: Node, request: Args) -> Steps:
    """The steps to the answer of one request; the same for serve and once."""
    check_version(request)
    verb = request.get("verb")
    if not isinstance(verb, str) or verb not in VERBS:
        raise Refusal(
            "unknown_verb",
            "request",
            "The verb {} is not known here.".format(shown(verb)),
            "Use one of: {}.".format(", ".join(VERBS)),
        )
    node.check()
    found = VERBS[verb](node, request)
    if isinstance(found, GeneratorType):
        found = yield from found
    answer: Answer = found  # type: ignore[assignment]  # a generator has become its answer
    return answer
