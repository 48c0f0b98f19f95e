"""The tree behind a ranked set: entries in order, counted, found by member."""
