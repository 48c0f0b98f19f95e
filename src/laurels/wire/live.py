"""The delay that the service and its client use for live feeds."""

RETRY_MS = 2_000
"""The time that a client waits before it reconnects."""
