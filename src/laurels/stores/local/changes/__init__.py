"""The kept changes of the boards in one process."""
