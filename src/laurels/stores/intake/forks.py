"""A count of forks, by which an open store notices that it is used in a child process.

Asking the kernel for the process id takes a tenth of the time of a query, so forks are counted
instead.
"""

import os

count = 0
"""A number that differs between a process and its children. Read the number from the module each
time."""


def _forked() -> None:
    global count  # noqa: PLW0603 (a process has one)
    count += 1


os.register_at_fork(after_in_child=_forked)
