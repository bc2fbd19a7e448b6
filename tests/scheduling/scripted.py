"""A node of a few lines for stories of the shell: it keeps claims, and says what it is told to.

The real node side has its own tests and its own end-to-end ones; this one exists to be silent,
slow to answer or to refuse at exactly the moment a story needs.
"""

from typing import Any

from nodes import channel
from nodes.errors import NodeRefused, NodeUnreachable
from nodes.models import Node


class Scripted:
    """Answers ``channel.ask`` for every node; runs live in ``claims`` by (node, run)."""

    def __init__(self, monkeypatch: Any) -> None:
        self.claims: dict[tuple[str, str], dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.silent: set[str] = set()
        self.deaf_after: set[tuple[str, str]] = set()
        self.refuses: dict[str, tuple[str, str]] = {}
        self.dirty: set[str] = set()
        self.starts = 0
        monkeypatch.setattr(channel, "ask", self.ask)

    def ask(
        self, node: Node, verb: str, args: dict[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        self.asked.append((node.name, verb))
        if node.name in self.silent:
            raise NodeUnreachable(f"{node.name} is silent.", next_step="Wait.")
        answer: dict[str, Any] = getattr(self, f"do_{verb}")(node, args or {})
        if (node.name, verb) in self.deaf_after:
            raise NodeUnreachable(f"{node.name} did not answer.", next_step="Wait.")
        return answer

    def do_prepare(self, node: Node, args: dict[str, Any]) -> dict[str, Any]:
        if node.name in self.refuses:
            code, kind = self.refuses[node.name]
            raise NodeRefused("It does not go.", next_step="Look.", code=code, kind=kind)
        order = args["order"]
        self.claims.setdefault((node.name, order["run"]), {"state": "prepared", "order": order})
        return {"boot_id": "boot-1", "cards": {}}

    def do_go(self, node: Node, args: dict[str, Any]) -> dict[str, Any]:
        claim = self.claims.get((node.name, args["run"]))
        if claim is None:
            raise NodeRefused("?", next_step="?", code="not_prepared", kind="request")
        if claim["state"] == "prepared":
            claim["state"] = "started"
            self.starts += 1
        return {"report": self.report(node.name, args["run"])}

    def do_stop(self, node: Node, args: dict[str, Any]) -> dict[str, Any]:
        claim = self.claims.setdefault((node.name, args["run"]), {"state": "prepared"})
        if claim["state"] == "prepared":
            claim["state"] = "refused"
        elif claim["state"] == "started":
            claim["asked"] = args["reason"]
        return {"report": self.report(node.name, args["run"])}

    def do_look(self, node: Node, args: dict[str, Any]) -> dict[str, Any]:
        here = [run for name, run in self.claims if name == node.name]
        unknown = [run for run in args["runs"] if run not in here]
        reports = [self.report(node.name, run) for run in here]
        return {"boot_id": "boot-1", "reports": reports, "unknown": unknown}

    def do_clean(self, node: Node, args: dict[str, Any]) -> dict[str, Any]:
        if (node.name, args["run"]) not in self.claims:
            raise NodeRefused("Unknown.", next_step="?", code="unknown_run", kind="request")
        return {"clean": not self.dirty, "cards": self.cards(node.name, args["run"])}

    def do_tail(self, node: Node, args: dict[str, Any]) -> dict[str, Any]:
        return {"data": "", "offset": args["offset"], "size": 0}

    def end(self, run: str, *, exit: int = 0, node: str | None = None, **more: Any) -> None:
        """The processes of a run are gone (on one node or all)."""
        for (name, known), claim in self.claims.items():
            if known == run and node in (None, name):
                claim.update({"state": "ended", "exit": exit, "end": "exited", **more})

    def cards(self, node: str, run: str) -> dict[str, Any]:
        order = self.claims[node, run].get("order") or {"cards": []}
        return {uuid: {"clean": uuid not in self.dirty} for uuid in order["cards"]}

    def report(self, node: str, run: str) -> dict[str, Any]:
        claim = self.claims[node, run]
        state = claim["state"]
        seq = {"prepared": 1, "refused": 2, "started": 3, "ended": 5, "unsupervised": 4}[state]
        report = {"run": run, "seq": seq, "boot_id": "boot-1", "log": {}, **claim}
        report.pop("order", None)
        if state == "ended":
            report["cards"] = self.cards(node, run)
            report.setdefault("exit_before_term", "asked" not in claim)
        return report
