"""A job as sent: what is taken, what is refused, and that every refusal names its field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.errors import InvalidOrder
from scheduling.order_fields import COMMAND_MAX_BYTES, FIELDS, duration_s
from scheduling.orders import NOT_YET, JobOrder, parse

LEAST = {"team": "vision", "command": "true", "gpus": 1}


def refused(**fields) -> dict[str, str]:
    with pytest.raises(InvalidOrder) as refusal:
        parse(LEAST | fields)
    return refusal.value.fields


def test_team_command_and_gpus_are_enough():
    assert parse(LEAST) == JobOrder(team="vision", command="true", gpus=1)


def test_what_is_missing_is_named():
    with pytest.raises(InvalidOrder) as refusal:
        parse({})
    assert set(refusal.value.fields) == {"team", "command", "gpus"}


def test_a_misspelt_field_is_named_with_the_one_meant_and_all_valid_ones():
    said = refused(gpu_modle="H100")["gpu_modle"]
    assert "Did you mean gpu_model?" in said
    assert all(name in said for name in FIELDS)


@pytest.mark.parametrize("field", NOT_YET)
def test_a_field_that_is_not_built_yet_is_refused_and_null_is_nothing(field):
    assert "not built yet" in refused(**{field: {"x": 1}})[field]
    assert parse(LEAST | {field: None}) == parse(LEAST)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("command", ""), ("command", "  \n "), ("command", "a\0b"), ("command", 7),
        ("command", "x" * (COMMAND_MAX_BYTES + 1)), ("command", "\ud800"),
        ("gpus", 0), ("gpus", -1), ("gpus", 1.5), ("gpus", True), ("gpus", "many"),
        ("gpus", 10**400), ("gpus", float("nan")), ("gpus", float("inf")), ("gpus", [1]),
        ("nodes", 0), ("cpus", 0), ("gpu_memory_gib", -1), ("gpu_memory_gib", 10**9),
        ("env", {"1A": "x"}), ("env", {"A B": "x"}), ("env", {"A": 1}), ("env", []),
        ("env", {"A": "x\0"}), ("env", {"": "x"}), ("env", {"A\n": "x"}),
        ("env", {"A": "x" * (121 * 1024)}), ("labels", {"fabric": None}),
        ("time_limit", "soon"), ("time_limit", 0), ("time_limit", "9999d"), ("time_limit", ""),
        ("name", "a\nb"), ("name", "x" * 201), ("workdir", "/a\0"), ("workdir", "data/vit"),
        ("workdir", "~/vit"),
        ("launch", "everywhere"), ("requeue", "yes"), ("checkpoint", {"signal": "KILL"}),
        ("checkpoint", {"grace_s": 0}), ("checkpoint", {"grace": 5}), ("checkpoint", 5),
        ("checkpoint", {"interval_s": 0}), ("checkpoint", {"to": "rank1"}),
    ],
)  # fmt: skip
def test_what_a_field_may_not_be_is_refused_by_its_name(field, value):
    assert set(refused(**{field: value})) == {field}


def test_gpus_must_divide_by_nodes():
    assert "divisible" in refused(gpus=7, nodes=2)["nodes"]


def test_a_command_of_256_kib_and_odd_characters_are_taken_unchanged():
    odd = "echo 'it''s' \"odd\" \\ $HOME `id` \r\n\t☂"
    assert parse(LEAST | {"command": odd}).command == odd
    whole = "x" * COMMAND_MAX_BYTES
    assert parse(LEAST | {"command": whole}).command == whole


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(90, 90), ("90", 90), ("90s", 90), ("45m", 2700), ("48h", 172800), ("2d12h", 216000)],
)
def test_durations_are_seconds_or_words(text, seconds):
    assert duration_s(text) == seconds


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.none() | st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*FIELDS, *NOT_YET, "x"]), json_values, max_size=6))
def test_whatever_is_sent_is_an_order_or_a_refusal_naming_fields(fields):
    try:
        order = parse(LEAST | fields)
    except InvalidOrder as refusal:
        assert refusal.fields
        assert all(refusal.fields.values())
    else:
        assert order.gpus >= 1


@pytest.mark.parametrize("typed", ["16", " 16", "            16", "00000000000016"])
def test_a_number_is_read_whole_however_it_was_typed(typed):
    assert parse(LEAST | {"gpus": typed}).gpus == 16


def test_a_number_of_many_digits_is_refused_and_not_cut():
    assert "gpus" in refused(gpus="1" + "0" * 12)
    assert duration_s("0000000000090") == 90
