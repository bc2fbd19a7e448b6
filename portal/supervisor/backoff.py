"""How long to wait before a process that died is started again. Pure."""

from dataclasses import dataclass

FIRST_S = 0.5
GREATEST_S = 30.0
SETTLED_S = 10.0


@dataclass(frozen=True)
class Backoff:
    """``next_s`` is the wait after the next death: half a second, doubling up to thirty."""

    next_s: float = FIRST_S

    def after(self, lived_s: float) -> tuple[float, "Backoff"]:
        """(seconds to wait now, the back-off from here); a life of ten seconds begins anew."""
        wait_s = FIRST_S if lived_s >= SETTLED_S else self.next_s
        return wait_s, Backoff(min(wait_s * 2, GREATEST_S))
