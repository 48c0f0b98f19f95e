"""How much of the work that falls due is done at once."""

SHARE = 512
"""Members of a pass that may be done while others wait: one to two milliseconds where there are
millions."""
MOST = 1_000_000
