"""Forgetting: what is left of an amount after a time, in integers.

Pure arithmetic; knows no teams. ``2 ** (-t)`` is built from the roots of one half in fixed point.
"""

from math import isqrt

_BITS = 32
_ONE = 1 << _BITS
_FINE = 16


def _roots() -> tuple[int, ...]:
    """Return 2 ** (-1/2), 2 ** (-1/4), … in fixed point, ``_FINE`` of them."""
    found = [isqrt((_ONE * _ONE) >> 1)]
    while len(found) < _FINE:
        found.append(isqrt(found[-1] << _BITS))
    return tuple(found)


_ROOTS = _roots()


def decayed(amount: int, age_s: int, half_life_s: int) -> int:
    """Return what is left of an amount after ``age_s``: half of it after every half-life.

    Off by less than a part in 30,000. No half-life (0): nothing is forgotten.
    """
    if half_life_s <= 0 or age_s <= 0:
        return amount
    halvings, rest_s = divmod(age_s, half_life_s)
    part = (rest_s << _FINE) // half_life_s
    left = _ONE
    for i, root in enumerate(_ROOTS, start=1):
        if part >> (_FINE - i) & 1:
            left = left * root >> _BITS
    whole = (abs(amount) * left >> _BITS) >> halvings
    return whole if amount >= 0 else -whole
