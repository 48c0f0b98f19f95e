"""Snapshots: the whole state at one offset of the log, so that opening need not read all of it."""
