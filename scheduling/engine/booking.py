"""Which cards a booking gets, and when there are enough: questions about busy spans of cards.

Pure, beside the plan: knows neither jobs nor teams, only from when to when each card is somebody's.
Times are microseconds, intervals are half open, so neighbours touch and do not conflict.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby

from .lanes import FOREVER


@dataclass(frozen=True, slots=True)
class Busy:
    """A card is ``who``'s over [start_us, end_us)."""

    start_us: int
    end_us: int
    who: str = ""


@dataclass(frozen=True, slots=True)
class Bookable:
    """One card that may be booked, and when it may not; ``own``: the booking has it already."""

    id: int
    node: str
    model: str
    memory_mib: int
    index: int
    busy: tuple[Busy, ...] = ()
    own: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """``gpus`` cards of one model in equal parts on ``nodes`` different nodes.

    ``nodes`` 0: wherever they are, of any model. All cards given stand for choice.
    """

    gpus: int
    nodes: int
    length_us: int

    @property
    def each(self) -> int:
        return self.gpus // self.nodes if self.nodes else self.gpus


def choose(cards: Iterable[Bookable], wish: Wish, start_us: int) -> tuple[int, ...]:
    """Return the ids of the cards for a booking from ``start_us``, ascending; empty for none.

    Those it has already go first; then the nodes that it fills most tightly, by name; on a node
    the cards of least memory, then of lowest index. Cost: O(cards log cards + spans).
    """
    free = [card for card in cards if is_free(card, start_us, start_us + wish.length_us)]
    if not wish.nodes:
        chosen = sorted(free, key=lambda c: (not c.own, c.node, c.memory_mib, c.index))[: wish.gpus]
        return tuple(sorted(card.id for card in chosen)) if len(chosen) == wish.gpus else ()
    groups = [list(group) for _, group in _grouped(free)]
    roomy = [group for group in groups if len(group) >= wish.each]
    best: tuple[tuple[bool, int, str], list[list[Bookable]]] | None = None
    for model in sorted({group[0].model for group in roomy}):
        of_model = sorted((g for g in roomy if g[0].model == model), key=_tightness)[: wish.nodes]
        if len(of_model) == wish.nodes:
            left = sum(len(group) for group in of_model) - wish.gpus
            new = not all(group[0].own for group in of_model)
            if best is None or (new, left, model) < best[0]:
                best = (new, left, model), of_model
    groups = best[1] if best else []
    return tuple(sorted(card.id for group in groups for card in group[: wish.each]))


def next_start(cards: Iterable[Bookable], wish: Wish, after_us: int) -> int | None:
    """Return the first moment from ``after_us`` at which a booking has room; None for never.

    Cost: O(spans log spans): the starts each card allows, counted by node, then over nodes.
    """
    starts = [(card, list(_starts(card, wish.length_us, after_us))) for card in cards]
    if not wish.nodes:
        return _first(_at_least(wish.gpus, [allowed for _, allowed in starts]))
    found = []
    by_model: dict[str, list[list[tuple[int, int]]]] = {}
    by_node: dict[tuple[str, str], list[list[tuple[int, int]]]] = {}
    for card, allowed in starts:
        by_node.setdefault((card.model, card.node), []).append(allowed)
    for (model, _), rows in by_node.items():
        by_model.setdefault(model, []).append(list(_at_least(wish.each, rows)))
    for nodes in by_model.values():
        first = _first(_at_least(wish.nodes, nodes))
        if first is not None:
            found.append(first)
    return min(found, default=None)


def is_free(card: Bookable, start_us: int, end_us: int) -> bool:
    """Return whether nobody has the card at any moment of [start_us, end_us)."""
    return not any(one.start_us < end_us and start_us < one.end_us for one in card.busy)


def in_the_way(cards: Iterable[Bookable], start_us: int, end_us: int) -> list[str]:
    """Return who has one of the cards in [start_us, end_us), each once, the first first."""
    spans = sorted(
        (one.start_us, one.who)
        for card in cards
        for one in card.busy
        if one.start_us < end_us and start_us < one.end_us
    )
    return list(dict.fromkeys(who for _, who in spans))


def most_at_once(spans: Iterable[tuple[int, int, int]], start_us: int, end_us: int) -> int:
    """Return the greatest sum of (from, until, amount) at any moment of [start_us, end_us)."""
    steps: dict[int, int] = {}
    for begin, end, amount in spans:
        begin, end = max(begin, start_us), min(end, end_us)
        if begin < end:
            steps[begin] = steps.get(begin, 0) + amount
            steps[end] = steps.get(end, 0) - amount
    total = most = 0
    for at in sorted(steps):
        total += steps[at]
        most = max(most, total)
    return most


def _grouped(cards: Sequence[Bookable]) -> Iterator[tuple[tuple[str, str], Iterator[Bookable]]]:
    """Group by node and model; inside, own cards first, then the smallest."""
    order = sorted(cards, key=lambda c: (c.node, c.model, not c.own, c.memory_mib, c.index))
    return groupby(order, key=lambda card: (card.node, card.model))


def _tightness(group: Sequence[Bookable]) -> tuple[bool, int, str]:
    return not group[0].own, len(group), group[0].node


def _starts(card: Bookable, length_us: int, after_us: int) -> Iterator[tuple[int, int]]:
    """Yield the [from, until) of the moments at which a booking may begin on a card."""
    begin = after_us
    for one in sorted(card.busy, key=lambda span: (span.start_us, span.end_us)):
        if one.end_us <= begin:
            continue
        if one.start_us - length_us >= begin:
            yield begin, one.start_us - length_us + 1
        begin = max(begin, one.end_us)
    if begin < FOREVER:
        yield begin, FOREVER


def _at_least(count: int, rows: Sequence[list[tuple[int, int]]]) -> Iterator[tuple[int, int]]:
    """Yield the [from, until) in which at least ``count`` of the rows have an interval."""
    steps = merge(*([s for a, b in row for s in ((a, 1), (b, -1))] for row in rows))
    open_now, since = 0, 0
    for at, moved in groupby(steps, key=lambda step: step[0]):
        before = open_now
        open_now += sum(move for _, move in moved)
        if before < count <= open_now:
            since = at
        elif open_now < count <= before:
            yield since, at


def _first(intervals: Iterator[tuple[int, int]]) -> int | None:
    found = next(intervals, None)
    return found[0] if found else None
