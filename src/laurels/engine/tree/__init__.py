"""The tree of a ranked set: entries in order, with counts, found by member."""
