"""The index of a store in one process, in memory."""
