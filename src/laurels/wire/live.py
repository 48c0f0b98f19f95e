"""The parts of the feed of changes that the service and its client have in common."""

RETRY_MS = 2_000
"""How long a client waits before it reconnects."""
