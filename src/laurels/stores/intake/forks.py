"""A count of forks, by which an open store detects that it is used in a child process.

Forks are counted, since asking the kernel for the process id would take a tenth of the time of a
query.
"""

import os

count = 0
"""A number that differs between a process and its children. Always read it as an attribute of this
module, since it changes."""


def _forked() -> None:
    global count  # noqa: PLW0603 (a process has one)
    count += 1


os.register_at_fork(after_in_child=_forked)
