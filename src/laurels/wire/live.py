"""What the service and its client share about the feed of changes."""

RETRY_MS = 2_000
"""How long a client waits before it reconnects."""
