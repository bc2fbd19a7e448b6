"""When a silent node is tried again."""

from nodes.breaker import FIRST_S, GREATEST_S, Breaker


def pauses(number: int, failures: int) -> list[float]:
    breaker, found = Breaker(number), []
    for _ in range(failures):
        breaker.fail(OSError(), 100.0)
        found.append(breaker.left_s(100.0))
    return found


def test_pauses_double_from_half_a_second_to_half_a_minute():
    for turn, pause in enumerate(pauses(7, 12)):
        full = min(GREATEST_S, FIRST_S * 2**turn)
        assert 0.8 * full <= pause <= full


def test_nodes_that_vanished_together_are_not_tried_together():
    assert len({pauses(number, 8)[-1] for number in range(100)}) > 90


def test_the_same_node_waits_as_long_each_time():
    assert pauses(7, 8) == pauses(7, 8)


def test_one_success_forgets_all_failures():
    breaker = Breaker(7)
    breaker.fail(OSError(), 100.0)

    breaker.succeed()

    assert breaker.left_s(100.0) == 0
    assert breaker.failures == 0
