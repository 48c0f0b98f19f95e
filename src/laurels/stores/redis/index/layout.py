"""The layouts of a board's rankings in sorted sets. Pure functions.

A member's row consists of its words (see `score`): columns, then the tie stamp. In the layouts
plain and packed the row is one number up to 2^53, which a sorted set represents exactly, so the
member's score in the set is its whole row:

    plain     one column, ties by member: the score is the word
    packed    columns with declared ranges, and the tie stamp, side by side in the bits of the score
    prefixed  everything else, and boards with decay: all scores in the set are equal, the words are
              put before the member as bytes, and a hash has the words of each member; takes about
              twice the memory and time

In a refreshed window only the sum of each step is checked, and not the total of all steps. If all
totals of a column have the same sign, the sum of one step may reach the end of the declared range,
so the total of all steps may exceed the range. Therefore enough bits are reserved for the total of
all steps.

A stamp must be able to represent all possible times, so its number of bits depends on
`tie_resolution`.
"""

from typing import Literal

from msgspec import Struct

from laurels.core.stats import BoardLayout
from laurels.model.rules import ColumnRule, Rules
from laurels.model.score import stamp, step_bounds
from laurels.timeline.instants import MAX_MS, MIN_MS

BITS = 53
"""The score of a sorted set represents integers of up to this number of bits exactly."""

Name = Literal["plain", "packed", "prefixed"]


class Layout(Struct, frozen=True):
    """A layout. Words are packed into one number, which is the sum of `(word - low) * unit`. The
    prefixed layout does not use `lows`, `highs` and `units`.

    `lows` and `highs` are the least and the greatest values of the words.
    """

    name: Name
    lows: tuple[int, ...] = ()
    highs: tuple[int, ...] = ()
    units: tuple[int, ...] = ()

    @property
    def scored(self) -> bool:
        """Whether the score in the sorted set is the whole row."""
        return self.name != "prefixed"


def layout_of(rules: Rules) -> Layout:
    """Return the cheapest layout that stores every possible score of a board exactly."""
    if rules.is_stamped or rules.weighings:
        return Layout("prefixed")
    ranges = _ranges(rules)
    if len(ranges) == 1:
        return Layout("plain", (0,), (ranges[0][1],), (1,))
    if sum(map(_bits, ranges)) > BITS:
        return Layout("prefixed")
    units, unit = [], 1
    for each in reversed(ranges):
        units.append(unit)
        unit <<= _bits(each)
    lows, highs = zip(*ranges, strict=True)
    return Layout("packed", lows, highs, tuple(reversed(units)))


def _ranges(rules: Rules) -> list[tuple[int, int]]:
    """Return the least and the greatest value of each word."""
    totals = [_total(rules, column) for column in rules.columns]
    pairs = [
        (column.sign * low, column.sign * high)
        for column, (low, high) in zip(rules.columns, totals, strict=True)
    ]
    if rules.tie != 0:
        ends = (stamp(MIN_MS, rules.resolution_ms), stamp(MAX_MS, rules.resolution_ms))
        pairs.append((rules.tie * ends[0], rules.tie * ends[1]))
    return [(min(pair), max(pair)) for pair in pairs]


def _total(rules: Rules, column: ColumnRule) -> tuple[int, int]:
    """Return the least and the greatest total of a column in any window."""
    low, high = column.low, column.high
    for window in rules.refreshed.values() if column.adds_up else ():
        bounds = step_bounds(column.low, column.high, window.steps)
        low, high = min(low, window.steps * bounds[0]), max(high, window.steps * bounds[1])
    return low, high


def is_alike(one: Layout, other: Layout) -> bool:
    """Return whether data written in one layout can be read in the other."""
    return one == other or (one.name == "plain" and other.name == "plain")


def _bits(ends: tuple[int, int]) -> int:
    return (ends[1] - ends[0]).bit_length()


def describe(rules: Rules) -> BoardLayout:
    """Return a description of the layout of a board, with advice on how to get a cheaper layout."""
    layout = layout_of(rules)
    if rules.head:
        means = (
            f"the first {rules.head:,} entries and some more are in a sorted set, all members in "
            "small hashes, and a grid counts them by score"
        )
        return BoardLayout(f"head, {layout.name}", means, None)
    if layout.name == "plain":
        return BoardLayout("plain", "the score of a sorted set is the score of the member", None)
    if layout.name == "packed":
        means = "scores and tie stamp share the 53 bits of the score of a sorted set"
        return BoardLayout("packed", means, None)
    means = "each entry begins with the words of the score, and a hash stores these again"
    return BoardLayout("prefixed", means, _cheaper(rules))


def unverified(rules: Rules) -> list[str]:
    """Return sentences about data that a check cannot verify because it is stored only once."""
    layout, rolling = layout_of(rules), any(w.steps for w in rules.windows.values())
    sentences = []
    if layout.scored and not all(w.steps for w in rules.windows.values()):
        sentences.append(
            f"scores in the window `all` and in calendar windows are stored only once "
            f"({layout.name} layout): a score that was changed to another possible score, or a "
            "missing member, cannot be detected"
        )
    if rules.is_stamped:
        sentences.append(
            "the times by which a column of op last keeps the newer value are stored only once "
            "(prefixed layout): a changed time cannot be detected"
        )
    if rolling:
        sentences.append(
            "the members' totals in each step of a rolling window are stored only once: its "
            "ranking is compared with these totals and, where the two differ, rebuilt from them"
        )
    return sentences


def _cheaper(rules: Rules) -> str:
    if rules.is_stamped:
        return "a column of op last would be packed with tie first or last, and tie_resolution 1ms"
    if rules.weighings:
        return (
            "totals with decay do not fit into one number; without a decay window the layout may "
            "be packed"
        )
    needed = sum(map(_bits, _ranges(rules)[: len(rules.columns)]))
    if rules.tie == 0:
        return f"declare min and max: the columns take {needed} bits, and {BITS} are available"
    ways = []
    if len(rules.columns) == 1:
        ways.append("tie=member would be plain")
    for resolution_ms, text in _RESOLUTIONS:
        ends = (stamp(MIN_MS, resolution_ms), stamp(MAX_MS, resolution_ms))
        if resolution_ms >= rules.resolution_ms and _bits(ends) + needed <= BITS:
            ways.append(f"tie_resolution={text} would be packed")
            break
    else:
        left = BITS - _bits(ends)
        ways.append(
            f"columns that take {left} bits instead of {needed} (see min and max) would be "
            f"packed with tie_resolution={text}"
        )
    return "; ".join(ways)


_RESOLUTIONS = ((1, "1ms"), (1_000, "1s"), (60_000, "1m"), (3_600_000, "1h"))
