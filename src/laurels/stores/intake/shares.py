"""The sizes of the shares in which due work is done."""

SHARE = 512
"""The number of members that a share of a pass processes while readers wait. It takes one to two
milliseconds if the ranking has millions of members."""
MAX_MEMBERS = 1_000_000
"""The maximum number of members that one call processes before it raises NotReady."""
