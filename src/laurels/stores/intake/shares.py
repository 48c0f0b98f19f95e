"""Sizes of the shares in which due work is done."""

SHARE = 512
"""How many members of a pass are done at a time while readers wait. This is one to two milliseconds
of work if the ranking has millions of members."""
MOST = 1_000_000
