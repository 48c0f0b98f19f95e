"""Sizes of the shares in which due work is done."""

SHARE = 512
"""Members of a pass that may be done while others wait: one to two milliseconds where there are
millions."""
MOST = 1_000_000
