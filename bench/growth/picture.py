"""A picture of the costs by size: SVG with logarithmic axes."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, log10

import msgspec

from bench.growth.points import BATCHED, FOOTPRINT, RANK, READ, UPDATE
from bench.growth.verdict import Costs, lines_of
from bench.sizes import size_name, size_of
from bench.timing import Sample

_WIDTH, _HEIGHT = 860, 500
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 226, 68, 84
_INK, _FAINT, _GRID = "#1f2328", "#59636e", "#d9dee3"
_BETWEEN_LABELS = 33
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


class Stroke(msgspec.Struct, frozen=True):
    """The style of a line."""

    label: str
    colour: str
    dashes: str = ""


STROKES = {
    UPDATE: Stroke("an update, one call", "#c2410c"),
    RANK: Stroke("a rank, one call", "#1d4ed8"),
    BATCHED: Stroke("an update in a batch of 1,000", "#0f766e"),
    READ: Stroke("a random read of memory", "#6e7781", "6 5"),
}


def picture(samples: Sequence[Sample], machine: str) -> str:
    """Return the picture as SVG; the samples must have at least two sizes."""
    lines = lines_of(samples)
    footprints = {
        size_of(s.question.case): s.middle for s in samples if s.question.group == FOOTPRINT
    }
    drawn = {name: lines[name] for name in STROKES if name in lines}
    plane = Plane.around(drawn)
    parts = [
        _heading(machine),
        *_rulers(plane, footprints),
        *(_line(plane, STROKES[name], costs) for name, costs in drawn.items()),
        *_labels(plane, drawn),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="system-ui, sans-serif" font-size="13">'
    )
    return "\n".join([head, *parts, "</svg>", ""])


class Plane(msgspec.Struct, frozen=True):
    """The coordinates of sizes and costs in the picture. The axis of costs begins and ends at
    powers of ten."""

    sizes: tuple[int, ...]
    low: int
    high: int

    @classmethod
    def around(cls, lines: Mapping[str, Costs]) -> "Plane":
        costs = [cost for line in lines.values() for cost in line.values()]
        sizes = sorted({size for line in lines.values() for size in line})
        return cls(tuple(sizes), floor(log10(min(costs))), ceil(log10(max(costs))))

    def x(self, size: int) -> float:
        first, last = log10(self.sizes[0]), log10(self.sizes[-1])
        return _LEFT + (log10(size) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, cost: float) -> float:
        part = (log10(cost) - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)


def _heading(machine: str) -> str:
    return (
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="#ffffff"/>'
        + _text(_LEFT, 28, "What one operation costs as a board grows", size=17, weight=600)
        + _text(_LEFT, 47, machine, colour=_FAINT, size=11)
    )


def _rulers(plane: Plane, footprints: Mapping[int, float]) -> Iterator[str]:
    right, foot = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for power in range(plane.low, plane.high + 1):
        y = plane.y(10.0**power)
        yield _rule(_LEFT, y, right, y)
        yield _text(_LEFT - 10, y + 4, _duration(10.0**power), anchor="end", colour=_FAINT)
    for size in plane.sizes:
        x = plane.x(size)
        yield _rule(x, _TOP, x, foot)
        yield _text(x, foot + 20, size_name(size), anchor="middle")
        if size in footprints:
            footprint = _room(footprints[size])
            yield _text(x, foot + 37, footprint, anchor="middle", colour=_FAINT, size=11)
    middle = (_LEFT + right) / 2
    label = "members of the board, and the bytes of its ranking and ids"
    yield _text(middle, foot + 66, label, anchor="middle")
    across = (_TOP + foot) / 2
    turned = f'transform="rotate(-90 22 {across:.1f})"'
    yield _text(22, across, "processor time of one operation", anchor="middle", more=turned)


def _line(plane: Plane, stroke: Stroke, costs: Costs) -> str:
    points = [(plane.x(size), plane.y(cost)) for size, cost in costs.items()]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{stroke.dashes}"' if stroke.dashes else ""
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{stroke.colour}"/>' for x, y in points
    )
    return (
        f'<polyline points="{path}" fill="none" stroke="{stroke.colour}" stroke-width="2.2"'
        f"{dashes}/>{dots}"
    )


def _labels(plane: Plane, lines: Mapping[str, Costs]) -> Iterator[str]:
    """Draw each line's name and last cost at its end, moved down if labels would overlap."""
    ends = sorted((plane.y(list(line.values())[-1]), name) for name, line in lines.items())
    x, lowest = _WIDTH - _RIGHT + 14, 0.0
    for at, name in ends:
        y = max(at, lowest)
        lowest = y + _BETWEEN_LABELS
        stroke, cost = STROKES[name], list(lines[name].values())[-1]
        yield _text(x, y + 1, stroke.label, colour=stroke.colour, size=12, weight=600)
        yield _text(x, y + 15, f"{_duration(cost)} at {size_name(plane.sizes[-1])}",
                    colour=_FAINT, size=11)  # fmt: skip


def _duration(ns: float) -> str:
    if ns < 1_000:
        return f"{ns:.3g} ns"
    return f"{ns / 1e3:.3g} µs" if ns < 1e6 else f"{ns / 1e6:.3g} ms"


def _room(nbytes: float) -> str:
    for multiple, unit in _BYTES:
        if nbytes >= multiple:
            return f"{nbytes / multiple:.3g} {unit}"
    return f"{nbytes:.0f} B"


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{_GRID}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = _INK,
    size: int = 13,
    weight: int = 400,
    more: str = "",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}" font-weight="{weight}" {more}>{escape(text)}</text>'
    )
