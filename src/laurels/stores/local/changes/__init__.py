"""Kept changes of the boards in one process."""
