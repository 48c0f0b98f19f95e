"""What the service and its client have to agree on for live feeds."""

RETRY_MS = 2_000
"""The time that a client waits before it reconnects."""
