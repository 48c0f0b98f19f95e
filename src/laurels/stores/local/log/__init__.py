"""The log of a store in one process, in memory or in a folder."""
