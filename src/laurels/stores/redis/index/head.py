"""The sizes of the layout of boards with a head. `lua/head.lua` describes the layout."""

from typing import Any

from msgspec import Struct

HEAD_READS = ("head", "head_grid")
"""The script files needed to read rankings of boards with a head."""
HEAD_WRITES = (*HEAD_READS, "head_writing", "head_new_grid", "head_passes")
"""The script files needed to write rankings of boards with a head."""


class HeadSizes(Struct, frozen=True):
    """The sizes of the layout; tests use smaller ones.

    - `slack`, `slack_share`: the number of entries below the positions that the board lists which
      are also stored in order. It is `slack` or, if that is greater, the fraction `slack_share` of
      the listed positions.
    - `spare`, `spare_share`: the number of entries below the listed positions which are archived,
      so that a correction does not shorten the list. It is `spare` or, if that is greater, the
      fraction `spare_share` of the listed positions.
    - `capacity`: the maximum average number of members in a bucket.
    - `sample`: the number of sampled members that are kept for each level (see
      `head_new_grid.lua`).
    - `edges`: the maximum number of edges of a grid.
    - `step`: the number of members between two edges is `step` times the rank, but at least `step`
      times the head and at least a quarter of `least`.
    - `width`, `least`: a new grid is begun when a segment has more members than `width` times the
      rank before it, more than `width` times the head, and more than `least`.
    - `trims`: see `encode`.
    - `call_ms`: the processor time of the server, in milliseconds, after which a call ends its
      share of a pass, even if it has visited fewer members than it was asked to.
    """

    slack: int = 10_000
    slack_share: float = 0.2
    spare: int = 100
    spare_share: float = 0.05
    capacity: int = 32
    sample: int = 4_096
    edges: int = 4_096
    step: float = 0.005
    width: float = 0.02
    least: int = 200
    trims: int = 2_000
    call_ms: float = 1

    def archived(self, head: int) -> int:
        """Return how many positions of each ranking are archived on a board with this head. A
        ranking with fewer members is archived whole."""
        return head + max(self.spare, int(head * self.spare_share))

    def encode(self, head: int) -> dict[str, Any]:
        """Return the sizes for a board with this head, as the scripts take them.

        A trim begins when the sorted set has more than `keep + chunk` entries, and leaves `keep`
        entries. A refill begins when fewer than `refill` positions are exact. `first` is the
        position of the first edge between segments. One call removes at most `chunk + trims`
        entries.
        """
        slack = max(self.slack, int(head * self.slack_share))
        return {
            "k": head,
            "keep": head + slack,
            "chunk": max(1, slack // 16),
            "refill": head + slack // 4,
            "first": head // 2,
            "trims": self.trims,
            "capacity": self.capacity,
            "sample": self.sample,
            "edges": self.edges,
            "step": self.step,
            "width": self.width,
            "least": self.least,
            "call_ms": self.call_ms,
        }


HEAD_SIZES = HeadSizes()
