"""Which cards a booking gets, or why it gets none and when the next slot is.

Between the service, which owns the rows and the lock, and the engine, which knows only spans: this
reads the facts, asks the engine, and puts a refusal into words with numbers.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from . import bookable
from .booking_rules import described, utc
from .bookings import us
from .engine import booking
from .engine.booking import Bookable, Wish
from .errors import NeverFits, Taken
from .models import Reservation

TRIES = 40
MINUTE_US = 60_000_000


class NoRoom(Exception):
    """Why a booking gets no cards; when it would is looked for after the lock is let go."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


def candidates(row: Reservation, uuids: Sequence[str]) -> list[Bookable]:
    """The cards that would do; sets ``gpus`` for a booking of all that was named."""
    cards = bookable.cards_of(row, uuids)
    if not row.nodes and not row.pk:
        row.gpus = len(cards)
    wish = wish_of(row)
    bare = [Bookable(c.id, c.node, c.model, c.memory_mib, c.index) for c in cards]
    if not cards or not booking.choose(bare, wish, 0):
        _never(row, cards)
    return cards


def _never(row: Reservation, cards: Sequence[Bookable]) -> None:
    most = Counter(card.node for card in cards).most_common(1)
    have = f"the most on one node is {most[0][1]}" if most else "there is none"
    kind = f" {row.gpu_model}" if row.gpu_model else ""
    where = f" on {', '.join(row.on_nodes)}" if row.on_nodes else ""
    raise NeverFits(
        f"{_asked(row)}{where} cannot be booked: of the{kind} cards that are in service, {have}.",
        next_step="Ask for fewer, for more nodes, or for another model; see /nodes/.",
        fields={"gpus": f"Of such cards in service, {have}."},
    )


def chosen(
    row: Reservation, cards: Sequence[Bookable], at: datetime, began: bool
) -> tuple[int, ...]:
    """The ids of the cards (Gpu) for a booking. The ledger lock is the caller's. Raises NoRoom."""
    facts = bookable.facts(cards, at, max(row.start_at, at), row.end_at, own=row.pk or 0)
    wish, start_us = wish_of(row), us(max(row.start_at, at) if began else row.start_at)
    if began:
        wish = Wish(wish.gpus, wish.nodes, us(row.end_at) - start_us)
    ids = booking.choose(facts.cards, wish, start_us)
    if not ids:
        raise NoRoom(_who(row, facts.cards, start_us))
    over = _over(row, facts, ids, start_us, wish)
    if over is not None:
        raise NoRoom(_limit_words(over, row.gpus))
    return ids


def look(row: Reservation, cards: Sequence[Bookable], at: datetime) -> None:
    """Raise Taken if a booking would get no cards now. Takes none and needs no lock."""
    try:
        chosen(row, cards, at, began=False)
    except NoRoom as why:
        raise taken(row, cards, why.cause, at) from None


def _over(
    row: Reservation, facts: bookable.Facts, ids: Sequence[int], start_us: int, wish: Wish
) -> bookable.Over | None:
    if row.team is None:
        return None
    taken = set(ids)
    models = Counter(card.model for card in facts.cards if card.id in taken)
    return bookable.over_limits(facts, row.team, models, start_us, start_us + wish.length_us)


def next_free(
    row: Reservation, cards: Sequence[Bookable], after: datetime, now: datetime
) -> datetime | None:
    """The first moment from ``after`` at which a booking like this would be taken, or None."""
    facts = bookable.facts(cards, now, own=row.pk or 0)
    wish, at_us = wish_of(row), us(max(after, now))
    ends = sorted({one.end_us for one in facts.booked} | {one.free_us for one in facts.held})
    for _ in range(TRIES):
        found = booking.next_start(facts.cards, wish, at_us)
        if found is None:
            return None
        # A start is told by the minute, and has to hold as it is told.
        at_us = -(-found // MINUTE_US) * MINUTE_US
        ids = booking.choose(facts.cards, wish, at_us)
        if ids and not _over(row, facts, ids, at_us, wish):
            return datetime.fromtimestamp(at_us // 1_000_000, UTC)
        if ids:
            at_us = next((end for end in ends if end > at_us), 0)
            if not at_us:
                return None
    return None


def taken(row: Reservation, cards: Sequence[Bookable], cause: str, at: datetime) -> Taken:
    found = next_free(row, cards, row.start_at, at)
    step = "There is no later slot for it; ask for fewer cards or a shorter slot."
    if found is not None:
        step = f"Next free for {_asked(row)}: {utc(found)}."
    return Taken(cause, next_step=step, fields={"start": f"{cause} {step}"})


def wish_of(row: Reservation) -> Wish:
    return Wish(row.gpus, row.nodes, us(row.end_at) - us(row.start_at))


def _asked(row: Reservation) -> str:
    spread = {0: "", 1: " on one node"}.get(row.nodes, f" on {row.nodes} nodes")
    return described({row.gpu_model: row.gpus}) + spread


def _who(row: Reservation, cards: Sequence[Bookable], start_us: int) -> str:
    who = booking.in_the_way(cards, start_us, start_us + wish_of(row).length_us)
    named = ", ".join(who[:5]) + (f" and {len(who) - 5} more" if len(who) > 5 else "")
    slot = f"{utc(row.start_at)} to {utc(row.end_at)}"
    return (
        f"{_asked(row)} are not free from {slot}: in the way are {named or 'cards out of service'}."
    )


def _limit_words(over: bookable.Over, gpus: int) -> str:
    of = f" {over.gpu_model}" if over.gpu_model else ""
    text = f"{over.team} may hold {over.limit // 1000}{of} cards and has booked "
    text += f"{over.booked // 1000} of them then"
    if over.jobs:
        ids = ", ".join(map(str, over.jobs[:8]))
        text += f"; its job{'s' if len(over.jobs) > 1 else ''} {ids} would still run"
    return f"{text}. {gpus} more are too many."
