"""What training takes: the known figures, what grows with what, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.errors import InvalidOrder
from scheduling.estimate.answer import GB, GIB, estimate, gb, warning
from scheduling.estimate.ask import NAMES, Ask, parse
from scheduling.estimate.memory import memory, shape_of

SEVEN = {"parameters": "7B"}


def card(**fields) -> list[str]:
    found = estimate(parse(SEVEN | fields)).card
    return [gb(one) for one in (found.weights, found.gradients, found.optimizer, found.total)]


def test_seven_billion_parameters_in_bf16_with_adamw_take_84_gb_and_fit_no_80_gb_card():
    found = estimate(parse(SEVEN))

    assert card() == ["14", "14", "56", "84"]
    assert not found.fits
    assert found.verdict == (
        "84 GB a card does not fit one 80 GB card. ZeRO-1 on 2 cards needs 56 GB on each."
    )


@pytest.mark.parametrize(
    ("zero", "parts"),
    [
        (1, ["14", "14", "7", "35"]),
        (2, ["14", "1.75", "7", "22.75"]),
        (3, ["1.75", "1.75", "7", "10.5"]),
    ],
)
def test_each_stage_of_zero_shards_one_more_state_over_eight_cards(zero, parts):
    assert card(zero=zero, dp=8) == parts


def test_data_parallelism_sends_28_gb_a_step_at_most_and_a_ring_of_eight_24_5():
    found = estimate(parse(SEVEN | {"dp": 8}))

    assert (gb(found.all_reduce), gb(found.ring)) == ("28", "24.5")
    assert (estimate(parse(SEVEN)).all_reduce, estimate(parse(SEVEN)).ring) == (0, 0)


def test_tensor_and_pipeline_parallelism_cut_every_state():
    assert card(tp=4, pp=2) == ["1.75", "1.75", "7", "10.5"]


def test_what_is_offloaded_is_in_the_hosts_ram():
    found = memory(parse(SEVEN | {"zero": 3, "dp": 8, "offload": "parameters"}))

    assert (found.weights, found.optimizer) == (0, 0)
    assert gb(found.host) == "70"


def test_activations_are_those_of_the_paper():
    # 22B of its table: 48 layers of 6144, 64 heads, sequence 2048, batch 4, tensor parallel 8.
    ask = Ask(22 * GB, sequence=2048, batch=4, hidden=6144, layers=48, heads=64, tp=8)
    sbh = 2048 * 4 * 6144

    assert memory(ask).activations == 48 * (sbh * 13 + 5 * 64 * 2048 * 2048 * 4 // 8)
    full = Ask(1, recompute="full", sequence=8, batch=2, hidden=16, layers=3)
    assert memory(full).activations == 3 * 2 * 8 * 2 * 16


def test_the_shape_of_seven_billion_is_that_of_a_usual_decoder():
    shape = shape_of(parse(SEVEN))

    assert 31 <= shape.layers <= 34
    assert shape.hidden == 128 * shape.layers


asks = st.builds(
    Ask,
    parameters=st.integers(10**6, 10**12),
    precision=st.sampled_from(["bf16", "fp32"]),
    zero=st.integers(0, 3),
    tp=st.sampled_from([1, 2, 8]),
    pp=st.sampled_from([1, 4]),
    dp=st.sampled_from([1, 3, 8]),
    sequence=st.integers(1, 10**5),
    batch=st.integers(1, 64),
    recompute=st.sampled_from(["none", "selective", "full"]),
)


@given(asks, st.integers(0, 10**5), st.integers(0, 64))
def test_a_longer_sequence_or_a_larger_batch_never_takes_less(ask, longer, more):
    larger = Ask(**{
        **{name: getattr(ask, name) for name in NAMES},
        "sequence": ask.sequence + longer, "batch": ask.batch + more,
    })  # fmt: skip

    assert memory(larger).total >= memory(ask).total


@given(asks)
def test_a_higher_stage_or_more_recomputation_never_takes_more(ask):
    fields = {name: getattr(ask, name) for name in NAMES}
    totals = [memory(Ask(**{**fields, "zero": zero})).total for zero in range(4)]
    kept = [
        memory(Ask(**{**fields, "recompute": how})).activations
        for how in ("none", "selective", "full")
    ]

    assert totals == sorted(totals, reverse=True)
    assert kept == sorted(kept, reverse=True)


@pytest.mark.parametrize(("percent", "warned"), [(109.9, True), (110, False), (120, False)])
def test_a_request_is_warned_of_below_ten_percent_of_headroom(percent, warned):
    needed = 1000 * GIB

    assert bool(warning(int(needed * percent / 100), needed)) is warned


def test_the_warning_proposes_fifteen_percent_more():
    found = estimate(parse(SEVEN | {"request_gib": 80}))

    assert found.request_gib == 90
    assert found.warning == (
        "The request of 85.9 GB leaves less than 10 % over the estimate of 84 GB. "
        "90 GiB a card would be safer."
    )


def test_what_was_assumed_is_said():
    bare, full = estimate(parse(SEVEN)), estimate(parse(SEVEN | {"sequence": 4096, "batch": 1}))

    assert "Activations are not counted: give sequence and batch." in bare.assumptions
    assert any("usual decoder's: 33 layers of 4224" in one for one in full.assumptions)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parameters", "7X"), ("parameters", "-7B"), ("parameters", 0), ("parameters", True),
        ("parameters", "9" * 30), ("parameters", "1e9"), ("precision", "fp4"), ("precision", []),
        ("optimizer", {}), ("zero", 4), ("tp", 0), ("dp", -1), ("batch", "x"), ("sequence", 1.5),
        ("headroom_percent", 9), ("headroom_percent", 21), ("offload", "disk"), ("zero", "٣"),
        ("master_weights", "maybe"), ("card_gb", "8" * 40),
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused_at_its_field(field, value):
    with pytest.raises(InvalidOrder) as refusal:
        parse({**SEVEN, "sequence": 1, "batch": 1, field: value})
    assert list(refusal.value.fields) == [field]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"parameters": "7B", "offload": "parameters"}, "offload"),
        ({"parameters": "7B", "sequence": 8}, "batch"),
        ({"parameters": "7B", "layers": 8}, "hidden"),
        ({"parametres": "7B"}, "parametres"),
        ({}, "parameters"),
    ],
)
def test_what_is_at_odds_unknown_or_missing_is_named(fields, named):
    with pytest.raises(InvalidOrder) as refusal:
        parse(fields)
    assert named in refusal.value.fields


@given(st.dictionaries(st.sampled_from([*NAMES, "x"]), st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
), max_size=5))  # fmt: skip
def test_whatever_is_sent_is_estimated_or_refused(fields):
    try:
        estimate(parse(fields))
    except InvalidOrder as refusal:
        assert refusal.fields
