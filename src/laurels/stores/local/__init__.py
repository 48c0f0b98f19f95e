"""The store of one process: it commits writes to a log, folds them into an index in memory, and
recovers the index from the log."""
