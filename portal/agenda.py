"""The calendar's drawing: lanes of nodes or of one node's cards, blocks at their time. No query.

Positions are in units of the drawing, LEFT to WIDTH over the time shown; time runs evenly, so a
day on which clocks change is 23 or 25 hours wide.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from scheduling.calendar import Block

LEFT, WIDTH, TOP = 96, 1096, 22
LANE, CARD_LANE, GAP = 34, 20, 3
DAYS = {"day": 1, "week": 7, "month": 31}
NARROW = 46  # a block narrower than this has no words in it, only a title


@dataclass(frozen=True, slots=True)
class Window:
    """The time shown: local midnights of the viewer's zone."""

    zoom: str
    day: date
    zone: ZoneInfo

    @property
    def start(self) -> datetime:
        return datetime.combine(self.day, time(), self.zone)

    @property
    def end(self) -> datetime:
        return datetime.combine(self.day + timedelta(days=DAYS[self.zoom]), time(), self.zone)

    def x(self, at: datetime) -> float:
        """Where a moment is, inside the drawing."""
        share = (at.timestamp() - self.start.timestamp()) / self.seconds
        return round(LEFT + (WIDTH - LEFT) * min(max(share, 0), 1), 1)

    @property
    def seconds(self) -> float:
        return self.end.timestamp() - self.start.timestamp()

    def moved(self, steps: int) -> date:
        """The first day of the window before or after."""
        return self.day + timedelta(days=steps * DAYS[self.zoom])

    def ticks(self) -> list[tuple[float, str]]:
        """Lines with their words: every two hours, or every day."""
        if self.zoom == "day":
            hours = range(0, int(self.seconds // 3600), 2)
            moments = [self.start.timestamp() + hour * 3600 for hour in hours]
            local = [datetime.fromtimestamp(at, self.zone) for at in moments]
            return [(self.x(at), f"{at:%H:%M}") for at in local]
        days = [self.day + timedelta(days=n) for n in range(DAYS[self.zoom])]
        told = "%a %-d %b" if self.zoom == "week" else "%-d"
        return [(self.x(datetime.combine(d, time(), self.zone)), d.strftime(told)) for d in days]


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the drawing. ``cards`` are the indexes drawn in it, ``node`` what it books."""

    name: str
    node: str
    cards: tuple[int, ...]
    y: int
    height: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A block in a lane; ``pk`` 0: not the viewer's to open."""

    kind: str
    hue: int
    x: float
    y: float
    width: float
    height: float
    title: str
    words: str
    pk: int = 0


def lanes(cards: Mapping[str, Sequence[int]], opened: str = "") -> list[Lane]:
    """A lane for each node, or for each card of the one that is ``opened``."""
    if opened in cards:
        return [
            Lane(f"GPU {index}", opened, (index,), TOP + at * CARD_LANE, CARD_LANE)
            for at, index in enumerate(cards[opened])
        ]
    return [
        Lane(name, name, tuple(indexes), TOP + at * LANE, LANE)
        for at, (name, indexes) in enumerate(cards.items())
    ]


def bars(
    window: Window,
    rows: Iterable[Lane],
    blocks: Iterable[Block],
    hues: Mapping[int, int],
    names: Mapping[int, str],
    own: frozenset[int],
) -> Iterator[Bar]:
    """Yield the blocks as they are drawn; one that is torn apart on a node in several bars.

    The title of a block is told to who may see it: ``own`` are the numbers of those.
    """
    at: dict[str, list[Lane]] = {}
    for lane in rows:
        at.setdefault(lane.node, []).append(lane)
    for block in blocks:
        x, end = window.x(block.start), window.x(block.end)
        for lane in at.get(block.node, ()):
            for first, count in _runs(lane.cards, set(block.gpus)):
                share = (lane.height - 2 * GAP) / len(lane.cards)
                yield Bar(
                    "mt" if block.team is None else "rs" if block.live else "was",
                    hues.get(block.team or 0, 0),
                    x,
                    round(lane.y + GAP + first * share, 1),
                    round(max(end - x, 1.5), 1),
                    round(max(count * share, 2), 1),
                    _title(block, names, window.zone, block.reservation in own),
                    _words(block, names, end - x, count * share, block.reservation in own),
                    block.reservation if block.reservation in own else 0,
                )


def _runs(cards: Sequence[int], taken: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the first place and the number of cards that lie side by side."""
    for is_in, group in groupby(enumerate(cards), key=lambda pair: pair[1] in taken):
        if is_in:
            places = [place for place, _ in group]
            yield places[0], len(places)


def _whose(block: Block, names: Mapping[int, str]) -> str:
    return "Maintenance" if block.team is None else names.get(block.team, "a team")


def _title(block: Block, names: Mapping[int, str], zone: ZoneInfo, own: bool) -> str:
    start, end = block.start.astimezone(zone), block.end.astimezone(zone)
    till = f"{end:%H:%M}" if start.date() == end.date() else f"{end:%-d %b %H:%M}"
    what = f" {block.title}" if own and block.title else ""
    return f"{_whose(block, names)}{what}, {start:%-d %b %H:%M}–{till}, {len(block.gpus)} GPUs"


def _words(block: Block, names: Mapping[int, str], width: float, height: float, own: bool) -> str:
    if width < NARROW or height < 13:
        return ""
    text = _whose(block, names) + (f" {block.title}" if own and block.title else "")
    return text[: int(width / 6.4)]
