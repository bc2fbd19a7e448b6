"""The driver's error numbers (Xid) and what each says about the card: data, with a site's own.

Classes: ``app`` is a program's doing and never costs a card its place, ``watch`` and
``degraded`` and ``failed`` are verdicts. A number that is not listed is ``watch``: unknown
trouble is looked at, not acted on.

Sources: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), whose immediate action
decides (restart the program: app; reset or reboot: degraded or failed), and the choices of DCGM
and GPUd where it is silent. The sources disagree, so a site may set others: the setting
GANGWAY_XID_CLASSES, a JSON object of number to class.
"""

from collections.abc import Mapping

APP, WATCH, DEGRADED, FAILED = "app", "watch", "degraded", "failed"
CLASSES = (APP, WATCH, DEGRADED, FAILED)

_BY_CLASS: dict[str, tuple[int, ...]] = {
    # A fault in a program, or what is left of one that was stopped: our own kill makes a 45.
    APP: (8, 13, 31, 43, 45, 68, 69, 94, 109, 137),
    WATCH: (32, 38, 78, 92, 93, 121, 157, 171, 172),
    DEGRADED: (46, 61, 63, 74, 136, 144, 145, 146, 147, 148, 149, 150, 156),
    FAILED: (48, 54, 62, 64, 79, 95, 110, 119, 120, 140, 143, 158, 167, 168),
}
TABLE: dict[int, str] = {n: name for name, numbers in _BY_CLASS.items() for n in numbers}
# Says that the recovery action changed; the action itself is read and obeyed.
SILENT = 154


def class_of(number: int, own: Mapping[int, str] | None = None) -> str:
    """The class of an error number; a site's own choice goes first."""
    if number == SILENT:
        return APP
    return (own or {}).get(number) or TABLE.get(number, WATCH)


def own_classes(given: object) -> dict[int, str]:
    """A site's choices, taken apart. Raises ValueError naming what is wrong and what is valid."""
    if not isinstance(given, dict):
        raise ValueError(f"It is {type(given).__name__}, not an object of number to class.")
    chosen: dict[int, str] = {}
    for number, name in given.items():
        if not str(number).isdigit() or name not in CLASSES:
            raise ValueError(f"{number!r}: {name!r} is none of {', '.join(CLASSES)} for a number.")
        chosen[int(number)] = str(name)
    return chosen
