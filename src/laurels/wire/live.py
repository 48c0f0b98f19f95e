"""What both ends of the feed of changes know."""

RETRY_MS = 2_000
"""How long a reader waits before it connects again."""
