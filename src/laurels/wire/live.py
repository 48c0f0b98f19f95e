"""Constants of live feeds that the service and its client share."""

RETRY_MS = 2_000
"""The time that a client waits before it reconnects."""
