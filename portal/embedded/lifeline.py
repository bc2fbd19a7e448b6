"""Children that end when their parent does, even when the parent is killed outright.

Linux only (PR_SET_PDEATHSIG). The signal comes when the *thread* that started the child ends, so
start such children from a main thread.
"""

import ctypes
import os
import signal
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)  # loaded ahead: nothing may be loaded after fork


def tied_to_parent(number: signal.Signals) -> Callable[[], None]:
    """A ``preexec_fn`` that has the kernel send ``number`` when this process dies."""
    parent = os.getpid()

    def tie() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # it died between fork and prctl: nobody would tell us
            os._exit(1)

    return tie
