"""The estimate as API, command and part of the order form: one sum, three doors."""

import pytest

from tests.portal.api_door import door


def test_an_estimate_needs_no_key_and_tells_bytes_and_sentences(alice):
    answer = door(alice).post("estimates", {"parameters": "7B", "dp": 8, "zero": 3})

    told = answer.json()
    assert answer.status_code == 200
    assert told["per_card"]["total"] == 10_500_000_000
    assert (told["cards"], told["all_cards"]) == (8, 84_000_000_000)
    assert (told["all_reduce"], told["all_reduce_ring"]) == (28_000_000_000, 24_500_000_000)
    assert told["fits"] and told["verdict"] == "10.5 GB a card fits one 80 GB card."
    assert told["assumptions"]


def test_what_is_no_figure_is_refused_by_name(alice):
    answer = door(alice).post("estimates", {"parameters": "7B", "zero": 9, "tipi": 1})

    assert answer.status_code == 400
    assert set(answer.json()["fields"]) == {"zero", "tipi"}


def test_nobody_is_told_without_a_token(db):
    assert door().post("estimates", {"parameters": "7B"}).status_code == 401


def part(client, **fields: str) -> str:
    return client.post("/jobs/estimate/", fields).content.decode()


def test_the_form_reads_its_own_gpus_and_tells_the_sum(alice, client_of):
    shown = part(client_of(alice), e_parameters="7B", e_zero="3", gpus="8")

    assert "10.5 GB a card fits one 80 GB card." in shown
    assert "28 GB at most, 24.5 by a ring" in shown
    assert "hx-swap-oob" not in shown


def test_a_request_that_is_too_small_is_warned_of_and_one_press_fills_it_in(alice, client_of):
    client = client_of(alice)

    warned = part(client, e_parameters="3B", gpus="1", gpu_memory_gib="30")
    filled = part(client, e_parameters="3B", gpus="1", gpu_memory_gib="30", use="1")

    assert "leaves less than 10 % over the estimate of 36 GB" in warned
    assert 'name="gpu_memory_gib" value="39"' in filled and "hx-swap-oob" in filled


@pytest.mark.parametrize(
    "figures", [{"e_zero": "9"}, {"tp": "x"}, {"e_batch": "2"}, {"e_parameters": "\0"}]
)
def test_odd_figures_end_in_a_sentence(figures, alice, client_of):
    shown = part(client_of(alice), **{"e_parameters": "7B", "gpus": "8", **figures})

    assert '<p class="dim"' in shown and "<dl" not in shown


def test_the_order_form_offers_the_estimate(alice, client_of):
    shown = client_of(alice).get("/jobs/new/").content.decode()

    assert 'name="e_parameters"' in shown and 'id="estimate"' in shown
