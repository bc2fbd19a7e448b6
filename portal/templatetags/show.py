"""How things look in a template: icons, badges, cells, bars, times, sizes.

Everything that is text is escaped by ``format_html``; drawings carry no style attributes.
"""

from collections.abc import Iterable
from datetime import datetime

from django.template import Library
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from portal import words
from portal.agenda import Bar
from portal.floor import Cell

register = Library()

ICONS = {
    "home": "M2.5 7.5 8 3l5.5 4.5V13H9.8V9.5H6.2V13H2.5z",
    "plus": "M8 3v10M3 8h10",
    "calendar": "M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2.3V5M10.5 2.3V5",
    "list": "M3 4h10M3 8h7M3 12h4",
    "chip": "M4.5 4.5h7v7h-7zM6.5 2v2.5M9.5 2v2.5M6.5 11.5V14M9.5 11.5V14M2 6.5h2.5M2 9.5h2.5"
    "M11.5 6.5H14M11.5 9.5H14",
    "scale": "M8 3v10M5 13h6M3 5h10M3 5 1.5 9h3zM13 5l-1.5 4h3z",
    "find": "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3 13.5 13.5",
    "sun": "M8 10.7a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4zM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5"
    "M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1",
    "moon": "M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6z",
    "play": "M5 3.5v9l7-4.5z",
    "pause": "M5.5 4v8M10.5 4v8",
    "clock": "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.7V8l2.3 1.6",
    "check": "M3 8.5l3.3 3.2L13 4.8",
    "x": "M4 4l8 8M12 4l-8 8",
    "alert": "M8 2.5 14.5 13.5h-13zM8 6.7v3M8 11.7v.2",
    "info": "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.3V11M8 5v.2",
    "copy": "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
    "out": "M6.5 3h-4v10h4M6.5 8H14M11 5l3 3-3 3",
    "dot": "M8 9.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3z",
}
SIZE = 11
GAP = 3


@register.simple_tag
def icon(name: str) -> SafeString:
    """A 16 px line drawing, hidden from screen readers: the word stands beside it."""
    return format_html(
        '<svg class="ic" viewBox="0 0 16 16" aria-hidden="true"><path d="{}"/></svg>', ICONS[name]
    )


@register.simple_tag
def badge(state: str) -> SafeString:
    """A job's state as icon and word."""
    colour, drawing, word = words.BADGES[state]
    return format_html('<span class="badge {}">{}{}</span>', colour, icon(drawing), word)


@register.simple_tag
def strip(cells: Iterable[Cell], size: int = SIZE) -> SafeString:
    """The cards of a node as squares, with a title each; the text beside it says the same."""
    cells = list(cells)
    step = size + GAP
    drawn = format_html_join(
        "", "{}", ((_cell(cell, at * step, size),) for at, cell in enumerate(cells))
    )
    width = max(len(cells) * step - GAP, 1)
    return format_html(
        '<svg class="strip" viewBox="-1 -1 {} {}" width="{}" height="{}" aria-hidden="true">'
        "{}</svg>",
        width + 2,
        size + 2,
        width + 2,
        size + 2,
        drawn,
    )


def _cell(cell: Cell, x: int, size: int) -> SafeString:
    kind = {"free": "free", "held": f"hue-{cell.hue}", "off": "off", "failed": "out"}
    title = f"GPU {cell.gpu.index}: {cell.team or cell.word}"
    return format_html(
        '<g><title>{}</title><rect class="c {}" x="{}" y="0" width="{}" height="{}" rx="2"/>{}</g>',
        title,
        kind.get(cell.state, "ring"),
        x,
        size,
        size,
        _mark(cell.state, x, size),
    )


def _mark(state: str, x: int, size: int) -> SafeString:
    near, far = size * 0.28, size * 0.72
    if state == "failed":
        return format_html(
            '<path class="x" d="M{0} {2}L{1} {3}M{1} {2}L{0} {3}"/>', x + near, x + far, near, far
        )
    if state in ("cleaning", "quarantined"):
        lines = "".join(f"M{x + near} {size * at:.1f}h{far - near:.1f}" for at in (0.3, 0.5, 0.7))
        return format_html('<path class="ln" d="{}"/>', lines)
    if state == "foreign":
        return format_html(
            '<rect class="theirs" x="{}" y="{}" width="{}" height="{}" rx="1"/>',
            x + near,
            near,
            far - near,
            far - near,
        )
    return mark_safe("")


@register.simple_tag
def swatch(state: str, hue: int = 0) -> SafeString:
    """One square for a legend."""
    shape = {"free": "free", "held": f"hue-{hue}", "off": "off", "failed": "out"}
    return format_html(
        '<svg class="strip" viewBox="-1 -1 13 13" width="13" height="13" aria-hidden="true">'
        '<rect class="c {}" x="0" y="0" width="11" height="11" rx="2"/>{}</svg>',
        shape.get(state, "ring"),
        _mark(state, 0, SIZE),
    )


@register.simple_tag
def bar(value: float, total: float, hue: int = 0, thin: bool = False) -> SafeString:
    """A share of a whole. The numbers stand beside it, so it is decoration."""
    percent = 100 * min(max(value / total, 0), 1) if total else 0
    return format_html(
        '<svg class="bar {}hue-{}" preserveAspectRatio="none" viewBox="0 0 100 1" '
        'aria-hidden="true">'
        '<rect class="fill" width="{}" height="1"/></svg>',
        "thin " if thin else "",
        hue,
        f"{percent:.1f}",
    )


@register.simple_tag
def bars(drawn: Iterable[Bar]) -> SafeString:
    """The blocks of the calendar; those of the viewer are links. Thousands: no template loop."""
    return mark_safe("".join(map(_bar, drawn)))  # noqa: S308 - what people wrote is escaped below


def _bar(one: Bar) -> str:
    hue = f" hue-{one.hue}" if one.hue else ""
    at = f'x="{one.x}" y="{one.y}"'
    middle = f'<text x="{one.x}" y="{one.y + one.height / 2:.1f}" dx="6" dy="4">'
    words = f"{middle}{escape(one.words)}</text>" if one.words else ""
    drawn = (
        f'<g class="{one.kind}{hue}"><title>{escape(one.title)}</title>'
        f'<rect {at} width="{one.width}" height="{one.height}"/>{words}</g>'
    )
    return f'<a href="/reservations/{one.pk}/">{drawn}</a>\n' if one.pk else f"{drawn}\n"


@register.filter
def when(at: datetime | None) -> SafeString | str:
    """ "12 Mar, 13:42 UTC" as a <time>; a dash for None."""
    if at is None:
        return "–"
    local = timezone.localtime(at)
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), f"{local:%-d %b, %H:%M %Z}")


@register.filter
def took(seconds: float | None) -> str:
    """A duration in words; a dash for None."""
    return "–" if seconds is None else words.duration(seconds)


@register.filter
def actor(name: str) -> str:
    """Who acted, as people call them."""
    return words.ACTORS.get(name, name)


@register.filter
def gib(mib: int | None) -> str:
    """MiB as GiB: "80 GiB", "0.5 GiB"."""
    return "–" if mib is None else f"{mib / 1024:.3g} GiB"


@register.filter
def model(name: str) -> str:
    """A card's model without its maker, which all have in common."""
    return name.removeprefix("NVIDIA ")


@register.filter
def further(reached: str, preferred: str) -> str:
    """Where the cards of an attempt lie that had better lie nearer: "over blocks, not in one"."""
    where = "several blocks" if reached == "any" else f"one {reached}"
    return f"Its cards lie in {where}; one {preferred} was preferred."


@register.filter
def plural(number: int, words_: str) -> str:
    """``{{ n|plural:"node,nodes" }}`` gives "3 nodes"."""
    one, _, many = words_.partition(",")
    return words.count(number, one, many)


@register.filter
def initials(name: str) -> str:
    """Two letters for the round mark beside a name."""
    parts = [part for part in name.replace(".", " ").replace("_", " ").split() if part]
    return "".join(part[0] for part in parts[:2]) if len(parts) > 1 else name[:2]
