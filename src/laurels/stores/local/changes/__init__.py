"""The changes that boards of one process keep."""
