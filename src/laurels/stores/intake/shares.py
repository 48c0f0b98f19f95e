"""Sizes of the shares in which due work is done."""

SHARE = 512
"""The members of a pass that are done while readers wait: one to two milliseconds of work if the
ranking has millions of members."""
MOST = 1_000_000
