"""The index in memory."""
