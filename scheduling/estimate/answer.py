"""An estimate with its words: does it fit a card, what would, what to ask for, what was assumed.

Pure. GB are 10**9 bytes as cards are sold; GiB are what an order asks for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from . import traffic
from .ask import Ask
from .memory import ASPECT, Memory, divided, memory, shape_of

GB, GIB = 10**9, 1 << 30
# A request below LEAST percent of the estimate is warned of; PROPOSED percent is offered.
LEAST, PROPOSED = 110, 115


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one card holds, what to ask for, and the sentences; bytes unless a unit is named."""

    ask: Ask
    card: Memory
    request_gib: int
    fits: bool
    verdict: str
    warning: str
    all_reduce: int
    ring: int
    assumptions: tuple[str, ...]

    @property
    def headroom(self) -> int:
        return self.card.total * self.ask.headroom_percent // 100


def estimate(ask: Ask) -> Estimate:
    """Return the estimate for a training run. Cost: a few dozen sums."""
    card = memory(ask)
    fits = card.total <= ask.card_gb * GB
    return Estimate(
        ask=ask,
        card=card,
        request_gib=divided(card.total * (100 + ask.headroom_percent), 100 * GIB),
        fits=fits,
        verdict=_verdict(ask, card, fits),
        warning=warning(ask.request_gib * GIB, card.total) if ask.request_gib else "",
        all_reduce=traffic.bound(ask),
        ring=traffic.ring(ask),
        assumptions=tuple(_assumed(ask)),
    )


def warning(request: int, needed: int) -> str:
    """Say so when a request (bytes) is below LEAST percent of what is needed; else empty."""
    if request * 100 >= needed * LEAST:
        return ""
    return (
        f"The request of {gb(request)} GB leaves less than {LEAST - 100} % over the estimate of "
        f"{gb(needed)} GB. {divided(needed * PROPOSED, 100 * GIB)} GiB a card would be safer."
    )


def gb(amount: int) -> str:
    """Bytes as GB with up to two places: 84, 22.75, 10.5."""
    return f"{amount / GB:.2f}".rstrip("0").rstrip(".")


def _verdict(ask: Ask, card: Memory, fits: bool) -> str:
    size = f"{gb(card.total)} GB a card"
    if fits:
        return f"{size} fits one {ask.card_gb} GB card."
    way = next(_ways(ask), None)
    step = f" {way}" if way else " More tensor or pipeline parallelism, or offload, would help."
    return f"{size} does not fit one {ask.card_gb} GB card.{step}"


def _ways(ask: Ask) -> Iterator[str]:
    """Yield what would fit with the usual headroom: the fewest copies, then the lowest stage."""
    for dp in (2, 4, 8, 16, 32, 64, 128, 256, 512):
        for zero in (1, 2, 3):
            if dp < ask.dp or zero < ask.zero:
                continue
            card = memory(replace(ask, dp=dp, zero=zero))
            if card.total * LEAST <= ask.card_gb * GB * 100:
                cards = dp * ask.tp * ask.pp
                yield f"ZeRO-{zero} on {cards} cards needs {gb(card.total)} GB on each."


def _assumed(ask: Ask) -> Iterator[str]:
    """Yield what the sums take for granted, as sentences."""
    yield "GB are 10^9 bytes; memory of the driver, of fragments and of buffers is the headroom."
    if ask.optimizer.startswith("adamw") and not ask.master_weights:
        yield "No FP32 copy of the weights is kept; with master_weights it is 4 bytes a parameter."
    if not ask.sequence:
        yield "Activations are not counted: give sequence and batch."
        return
    shape = shape_of(ask)
    if not ask.hidden:
        yield (
            f"The shape is a usual decoder's: {shape.layers} layers of {shape.hidden} "
            f"({ASPECT} for each layer), {shape.heads} heads."
        )
    yield "batch is the micro-batch of one replica; each layer keeps what a decoder's layer keeps."
    if ask.recompute == "none":
        yield "Attention scores are kept; with fused attention, choose recompute selective."
    if ask.pp > 1:
        yield "The first stage of the pipeline is the fullest: it holds a micro-batch a stage."
