"""A count of forks, by which an opened store tells a child process from its parent.

Asking the kernel for the process id takes a tenth of the time of a query, so forks are counted
instead.
"""

import os

_count = 0


def forks() -> int:
    """Return a number that differs between a process and its children."""
    return _count


def _forked() -> None:
    global _count  # noqa: PLW0603 (a process has one)
    _count += 1


os.register_at_fork(after_in_child=_forked)
