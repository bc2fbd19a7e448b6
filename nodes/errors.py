"""What can go wrong between the portal and a machine.

The family tells *known* from *unknown*: a refusal is an answer (nothing was started), silence
is not. Callers undo on NodeRefused and change nothing on NodeUnreachable. To add a case,
subclass one of the two and give it a stable ``code``.
"""


class NodeError(Exception):
    """A node could not do what it was asked.

    ``cause`` is one sentence of fact, ``next_step`` one sentence a person can act on.
    """

    code = "node_error"

    def __init__(self, cause: str, *, next_step: str) -> None:
        super().__init__(f"{cause} {next_step}".strip())
        self.cause = cause
        self.next_step = next_step


class NodeUnreachable(NodeError):
    """Nothing was heard from the node; whether the order arrived is unknown."""

    code = "node_unreachable"


class HostKeyChanged(NodeUnreachable):
    """The machine that answered is not the one whose host key was pinned."""

    code = "host_key_changed"


class KeyRejected(NodeUnreachable):
    """The machine answered and does not accept the portal's key."""

    code = "key_rejected"


class NodeRefused(NodeError):
    """The node answered and said no; nothing was started.

    ``code`` is the node's own word (``card_busy``, ``no_workdir``); ``kind`` says whose matter
    it is: ``node`` (another node may do), ``job`` (no node will), ``request`` (ours),
    ``foreign`` (another portal owns the node).
    """

    def __init__(self, cause: str, *, next_step: str, code: str, kind: str) -> None:
        super().__init__(cause, next_step=next_step)
        self.code = code
        self.kind = kind


class EnrolmentFailed(NodeError):
    """A machine lacks what a node needs; nothing was written."""

    code = "enrolment_failed"
