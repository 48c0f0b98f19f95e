"""How often this process came out of a fork: by it an opened store tells a child from its parent.

To ask the kernel who one is takes as long as a tenth of a question, so forks are counted instead.
"""

import os

_count = 0


def forks() -> int:
    """Another number in each child than in its parent."""
    return _count


def _forked() -> None:
    global _count  # noqa: PLW0603 (a process has one)
    _count += 1


os.register_at_fork(after_in_child=_forked)
