"""Snapshots: the whole state at an offset of the log, so that opening need not read the log before
it."""
