"""Bytes of weights, gradients, optimizer states and activations on one card, and in the host's RAM.

Pure integer sums, rounded up. A new state that training keeps is a field of ``Memory``.

Sources: states of mixed-precision training and their sharding, S. Rajbhandari et al., ZeRO,
arXiv 1910.02054, sections 3 and 5; offload, J. Ren et al., ZeRO-Offload, arXiv 2101.06840;
activations, V. Korthikanti et al., Reducing Activation Recomputation, arXiv 2205.05198, equations
1 to 6; parameters of a transformer, 12 x layers x hidden^2, the same paper.
"""

from dataclasses import dataclass

from .ask import OPTIMIZERS, PRECISIONS, Ask

# Hidden width for each layer of usual decoders, and the width of an attention head.
ASPECT = 128
HEAD = 128


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one card, and of all cards' states that stay in RAM."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    host: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.activations


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder's layers, hidden width and attention heads."""

    layers: int
    hidden: int
    heads: int


def memory(ask: Ask) -> Memory:
    """Return what one card holds. The largest share counts where shards are not equal."""
    width = PRECISIONS[ask.precision]
    master = 4 if ask.master_weights else 0
    model = divided(ask.parameters, ask.tp * ask.pp)
    weights = divided(model * width, ask.dp if ask.zero >= 3 else 1)
    gradients = divided(model * width, ask.dp if ask.zero >= 2 else 1)
    states = model * (OPTIMIZERS[ask.optimizer] + master)
    optimizer = divided(states, ask.dp if ask.zero >= 1 else 1)
    host = 0
    if ask.offload != "none":
        host += optimizer * ask.cards
        optimizer = 0
    if ask.offload == "parameters":
        host += weights * ask.cards
        weights = 0
    return Memory(weights, gradients, optimizer, activations(ask), host)


def activations(ask: Ask) -> int:
    """Return the bytes of activations on the fullest card; 0 when sequence or batch is unknown.

    A layer keeps s·b·h·(10 + 24/t) bytes and 5·a·s²·b/t for attention; selective recomputation
    drops the latter, full recomputation keeps the layer's input 2·s·b·h alone. The first stage of a
    pipeline holds as many micro-batches as there are stages, so it keeps what all layers keep.
    """
    if not ask.sequence or not ask.batch:
        return 0
    shape = shape_of(ask)
    tokens = ask.sequence * ask.batch
    if ask.recompute == "full":
        layer = 2 * tokens * shape.hidden
    else:
        layer = 10 * tokens * shape.hidden + divided(24 * tokens * shape.hidden, ask.tp)
        if ask.recompute == "none":
            layer += divided(5 * shape.heads * ask.sequence * tokens, ask.tp)
    # The paper counts numbers of two bytes.
    return divided(layer * shape.layers * PRECISIONS[ask.precision], 2)


def shape_of(ask: Ask) -> Shape:
    """Return the shape as given, or a usual decoder's of so many parameters."""
    if ask.hidden and ask.layers:
        return Shape(ask.layers, ask.hidden, ask.heads or max(1, ask.hidden // HEAD))
    layers = max(1, _cube_root(ask.parameters // (12 * ASPECT * ASPECT)))
    return Shape(layers, ASPECT * layers, ask.heads or layers)


def _cube_root(number: int) -> int:
    """Return the nearest whole cube root."""
    root: int = round(number ** (1 / 3))
    return min((root - 1, root, root + 1), key=lambda one: (abs(one**3 - number), one))


def divided(amount: int, parts: int) -> int:
    return -(-amount // parts)
