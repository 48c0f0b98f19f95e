"""The sizes of the layout of boards with a head, which `lua/head.lua` describes. Pure."""

from typing import Any

from msgspec import Struct

HEAD_READS = ("head", "head_grid")
"""The files of scripts that read rankings with this layout."""
HEAD_WRITES = (*HEAD_READS, "head_writing", "head_new_grid", "head_passes")
"""The files of scripts that write them."""


class HeadSizes(Struct, frozen=True):
    """The sizes of the layout; tests use smaller ones.

    `slack` and `slack_share` are how many entries more than the head are in order: that many, or
    that share of the head. `capacity` is how many members a bucket has on average at most,
    `sample` how many sampled members of each level are kept, `edges` how many edges a grid has at
    most. Edges are `step` of a rank apart, or `step` of the head, or a quarter of `least` places.
    A new grid is begun when a segment has more than `width` of its rank, of the head, and `least`
    places.
    """

    slack: int = 10_000
    slack_share: float = 0.2
    capacity: int = 96
    sample: int = 4_096
    edges: int = 4_096
    step: float = 0.005
    width: float = 0.02
    least: int = 200
    trims: int = 2_000

    def encode(self, head: int) -> dict[str, Any]:
        """Encode the sizes for a head, for the scripts.

        `keep` is how many entries a trim leaves, `chunk` after how many more there is one, `refill`
        below how many exact positions more entries are added, `first` the position of the first
        edge, and `trims` how many entries a call removes at most besides.
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
        }


HEAD_SIZES = HeadSizes()
