"""When a silent node may be tried again: 0.5 s after the first failure, doubling to 30 s.

Pure: times come from outside. The jitter follows from the node's number, so that many nodes
that vanished together are not all tried at the same moment, and a test knows what to expect.
"""

from zlib import crc32

FIRST_S = 0.5
GREATEST_S = 30.0


class Breaker:
    """Counts failures of one node; a success forgets them. Seconds of one monotonic clock."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._again_at = 0.0
        self.failures = 0
        self.why: Exception | None = None

    def left_s(self, now_s: float) -> float:
        """Seconds until the next try is allowed; 0 when it is."""
        return max(0.0, self._again_at - now_s) if self.failures else 0.0

    def fail(self, why: Exception, now_s: float) -> None:
        self.failures += 1
        self.why = why
        pause_s = min(GREATEST_S, FIRST_S * 2 ** min(self.failures - 1, 10))
        jitter = crc32(f"{self._number}:{self.failures}".encode()) % 1000 / 1000
        self._again_at = now_s + pause_s * (0.8 + 0.2 * jitter)

    def succeed(self) -> None:
        self.failures, self.why = 0, None
