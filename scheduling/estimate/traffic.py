"""Bytes that data parallelism sends in each step: an upper bound, and the ring's exact figure.

Source: bandwidth-optimal ring all-reduce, P. Patarasuk and X. Yuan, J. Parallel Distrib. Comput.
69(2), 2009: each of n cards sends and receives 2·(n-1)/n of the gradients.
"""

from .ask import PRECISIONS, Ask


def bound(ask: Ask) -> int:
    """Return twice the gradients of one card's share of the model; 0 with one copy of it."""
    return 2 * _gradients(ask) if ask.dp > 1 else 0


def ring(ask: Ask) -> int:
    """Return what a ring over the ``dp`` copies sends and receives on each card."""
    return -(-2 * (ask.dp - 1) * _gradients(ask) // ask.dp)


def _gradients(ask: Ask) -> int:
    return -(-ask.parameters // (ask.tp * ask.pp)) * PRECISIONS[ask.precision]
