"""Each rule has what fires it and a near miss that does not; nothing flaps; garbage is no fault."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.health import judge, looks, xids
from nodes.health.rules import BY_HAND, RULES, Rule

PAGE = Path(__file__).parents[3] / "docs/health-rules.md"
WELL = {
    "temperature_c": 40, "utilization_pct": 90, "recovery_action": 0, "ecc_uncorrected": 0,
    "remapped_uncorrectable": 0, "remap_pending": False, "remap_failed": False, "shutdown_c": 95,
    "clocks_reasons": 0x4, "pcie_width": 16, "pcie_width_max": 16, "pcie_gen": 5, "pcie_gen_max": 5,
}  # fmt: skip


def see(**facts: object) -> looks.Look:
    return looks.Look({**WELL, **facts})


def xid(number: int) -> looks.Look:
    return looks.Look(WELL, xids=(looks.Xid(number, "words"),))


CASES: dict[str, tuple[list[looks.Look], list[looks.Look]]] = {
    "recovery-action": ([see(recovery_action=n) for n in (1, 2, 4, 6, 7)], [see(), xid(154)]),
    "recovery-drain": ([see(recovery_action=3), see(recovery_action=5)], [see(recovery_action=9)]),
    "card-gone": ([looks.Look({}, gone=True)], [looks.Look({})]),
    "xid-failed": ([xid(79), xid(48), xid(119)], [xid(94), xid(13)]),
    "xid-degraded": ([xid(63), xid(74)], [xid(31)]),
    "xid-watch": ([xid(92), xid(999)], [xid(43), xid(45), xid(79)]),
    "remap-failed": ([see(remap_failed=True)], [see(remap_failed=None), see(remap_pending=True)]),
    "remap-pending": ([see(remap_pending=True)], [see(remap_pending="yes")]),
    "remap-many": ([see(remapped_uncorrectable=512)], [see(remapped_uncorrectable=511)]),
    "ecc-uncorrected": ([looks.Look(WELL, {"ecc_uncorrected": 1})], [see(ecc_uncorrected=900)]),
    "near-shutdown": ([see(temperature_c=92)], [see(temperature_c=91), see(shutdown_c=None)]),
    "hw-slowdown": (
        [see(clocks_reasons=n) for n in (0x8, 0x40, 0x80, 0x44)],
        [see(clocks_reasons=n) for n in (0x1, 0x4, 0x5, 0x20, 0x100)],
    ),
    "sw-thermal": ([see(clocks_reasons=0x20)], [see(clocks_reasons=0x40)]),
    "pcie-width": ([see(pcie_width=8)], [see(pcie_width=16), see(pcie_width=None)]),
    "pcie-gen": ([see(pcie_gen=3)], [see(pcie_gen=1, utilization_pct=10)]),
}


def after(rule: Rule, seen: list[looks.Look], memory: judge.Memory | None = None) -> judge.Memory:
    kept = memory or {}
    for look in seen:
        kept, _ = judge.judge(look, kept, {}, [rule])
    return kept


def test_every_rule_has_its_cases() -> None:
    assert sorted(CASES) == sorted(rule.name for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_fires_when_it_should_and_only_after_as_many_looks(rule: Rule) -> None:
    fires, _ = CASES[rule.name]
    for look in fires:
        short = judge.verdict_of(after(rule, [look] * (rule.needs - 1)), [rule])
        full = judge.verdict_of(after(rule, [look] * rule.needs), [rule])
        assert short.verdict == "ok"
        assert (full.verdict, full.rule) == (rule.verdict, rule.name)
        assert full.evidence and full.advice


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_near_miss_fires_nothing(rule: Rule) -> None:
    _, misses = CASES[rule.name]
    for look in misses:
        assert judge.verdict_of(after(rule, [look] * (rule.needs + 1)), [rule]).verdict == "ok"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_lets_go_only_after_as_many_good_looks_or_by_hand(rule: Rule) -> None:
    fired = after(rule, [CASES[rule.name][0][0]] * rule.needs)
    good = min(rule.clears or 500, 500)
    almost = after(rule, [see()] * (good - 1), fired)
    assert judge.verdict_of(almost, [rule]).verdict == rule.verdict
    if rule.clears != BY_HAND and rule.clears <= good:
        assert judge.verdict_of(after(rule, [see()], almost), [rule]).verdict == "ok"


def test_one_tenants_program_never_costs_a_card_its_place() -> None:
    memory: judge.Memory = {}
    for number in (13, 31, 43, 45, 68, 69, 94, 109) * 20:
        memory, verdict = judge.judge(xid(number), memory, {})
        assert verdict.verdict == "ok"


def test_a_card_that_flaps_is_not_let_go_with_every_good_look() -> None:
    rule = next(rule for rule in RULES if rule.name == "hw-slowdown")
    hot, verdicts = see(clocks_reasons=0x40), []
    memory = after(rule, [hot] * rule.needs)
    for _ in range(10):
        memory = after(rule, [see(), hot], memory)
        verdicts.append(judge.verdict_of(memory, [rule]).verdict)
    assert verdicts == ["degraded"] * 10
    # And what never held long enough never counts.
    assert not after(rule, [hot, see()] * 10)


def test_a_site_may_judge_an_error_number_otherwise() -> None:
    _, verdict = judge.judge(xid(13), {}, xids.own_classes({"13": "failed"}))
    assert verdict.rule == "xid-failed"
    _, verdict = judge.judge(xid(79), {}, xids.own_classes({"79": "app"}))
    assert verdict.verdict == "ok"


@pytest.mark.parametrize("given_", [[], {"x": "failed"}, {"79": "broken"}, {"79": 3}])
def test_other_choices_are_refused_by_name(given_: object) -> None:
    with pytest.raises(ValueError, match=r"none of app, watch|not an object"):
        xids.own_classes(given_)


def test_errors_are_found_by_the_slot_of_the_card() -> None:
    lines = [
        "NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.",
        "NVRM: Xid (0000:23:00): 31, pid=1, name=python",
        "NVRM: The NVIDIA GPU 0000:2e:00.0\nfallen off the bus",
        "NVRM: GPU at PCI:0000:39:00: fallen off the bus and is not responding",
    ]
    assert [x.number for x in looks.xids(lines, "00000000:18:00.0")] == [79]
    assert [x.number for x in looks.xids(lines, "00000000:23:00.0")] == [31]
    assert [x.number for x in looks.xids(lines, "00000000:39:00.0")] == [79]
    assert looks.xids(lines, "00000000:44:00.0") == ()
    assert looks.xids(lines, "") == ()


def test_a_counter_that_fell_or_another_boot_is_a_new_beginning() -> None:
    assert looks.deltas({"ecc_uncorrected": 5}, {"ecc_uncorrected": 3}, True) == {
        "ecc_uncorrected": 2
    }
    assert looks.deltas({"ecc_uncorrected": 1}, {"ecc_uncorrected": 3}, True) == {}
    assert looks.deltas({"ecc_uncorrected": 5}, {"ecc_uncorrected": 3}, False) == {}
    assert looks.deltas({"ecc_uncorrected": 5}, {}, True) == {}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside),
    max_leaves=6,
)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(sorted(WELL)), st.text() | st.none() | st.lists(st.none())))
def test_garbage_is_never_a_verdict(facts) -> None:
    memory: judge.Memory = {}
    for _ in range(25):
        memory, verdict = judge.judge(looks.Look(facts), memory, {})
    assert verdict.verdict == "ok"


@settings(max_examples=200)
@given(ANYTHING)
def test_a_memory_that_cannot_be_read_is_no_memory(kept) -> None:
    memory = judge.read(kept)
    judge.judge(see(), memory, {})
    assert json.loads(json.dumps(judge.stored(memory))) == judge.stored(memory)


def test_the_page_shows_the_rules() -> None:
    table = "\n".join(
        f"| `{r.name}` | {r.verdict} | {r.signal} | {r.needs} | "
        f"{'by hand' if r.clears == BY_HAND else r.clears} | {r.advice} | {r.source} |"
        for r in RULES
    )
    assert table in PAGE.read_text(), f"Paste this into docs/health-rules.md:\n{table}"


def test_the_page_shows_every_error_number_with_its_class() -> None:
    text = PAGE.read_text()
    for name in xids.CLASSES:
        told = ", ".join(str(n) for n in sorted(xids.TABLE) if xids.TABLE[n] == name)
        assert re.search(rf"\| `{name}` \| {told} \|", text), f"| `{name}` | {told} |"
