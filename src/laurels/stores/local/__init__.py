"""The store of one process: commits to a log, folds into an index in memory, recovers."""
