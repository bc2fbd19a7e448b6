"""Cards and spans: neighbours touch, a choice is free, and the next start is the first there is."""

from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine.booking import (
    Bookable,
    Busy,
    Wish,
    choose,
    in_the_way,
    is_free,
    most_at_once,
    next_start,
)

spans = st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda s: Busy(s[0], s[0] + s[1], "x"))


@st.composite
def floors(draw):
    """Up to nine cards on three nodes of two models, with busy spans."""
    return [
        Bookable(
            id=number,
            node=draw(st.sampled_from("abc")),
            model="H100",
            memory_mib=80,
            index=number,
            busy=tuple(draw(st.lists(spans, max_size=4))),
        )
        for number in range(draw(st.integers(1, 9)))
    ]


wishes = st.builds(
    lambda nodes, each, length: Wish(max(nodes, 1) * each, nodes, length),
    st.integers(0, 3),
    st.integers(1, 3),
    st.integers(1, 10),
)


@given(floors(), wishes, st.integers(0, 40))
def test_what_is_chosen_is_free_and_spread_as_asked(cards, wish, start):
    chosen = choose(cards, wish, start)
    if chosen:
        by_id = {card.id: card for card in cards}
        picked = [by_id[one] for one in chosen]
        assert all(is_free(card, start, start + wish.length_us) for card in picked)
        assert len(set(chosen)) == wish.gpus
        if wish.nodes:
            nodes = [card.node for card in picked]
            assert {nodes.count(name) for name in nodes} == {wish.each}


@given(floors(), wishes, st.integers(0, 40))
def test_the_order_of_the_cards_means_nothing(cards, wish, start):
    assert choose(cards, wish, start) == choose(cards[::-1], wish, start)


@given(floors(), wishes, st.integers(0, 20))
def test_the_next_start_is_the_first_at_which_there_is_room(cards, wish, after):
    tried = (at for at in range(after, 60) if choose(cards, wish, at))

    assert next_start(cards, wish, after) == next(tried, None)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 3)), max_size=6))
def test_the_most_at_once_is_the_highest_of_all_moments(slots):
    def at(moment):
        return sum(amount for begin, end, amount in slots if begin <= moment < end)

    assert most_at_once(slots, 2, 8) == max(map(at, range(2, 8)))


def test_neighbours_touch_and_do_not_conflict():
    card = Bookable(1, "a", "H100", 80, 0, (Busy(10, 20, "reservation 1"),))

    assert is_free(card, 20, 30) and is_free(card, 0, 10)
    assert not is_free(card, 19, 30) and not is_free(card, 0, 11)
    assert in_the_way([card], 19, 30) == ["reservation 1"]


def test_own_cards_are_kept_where_they_will_do():
    cards = [Bookable(n, "ab"[n > 3], "H100", 80, n, own=n > 3) for n in range(8)]

    assert choose(cards, Wish(2, 1, 5), 0) == (4, 5)
