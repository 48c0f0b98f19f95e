"""A peer of laurels whose process is limited to one core."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.peers import Writer
from bench.timing import Safety, Task
from bench.workload import Batch


class OnOneCore:
    """The board of another peer, on one core. The caller and the commit thread switch without
    waking a sleeping core, as a Redis server and its client do with the placement *one core*."""

    ours = True

    def __init__(self, peer: Writer) -> None:
        self._peer = peer
        self.name = peer.name
        self.settings = f"{peer.settings}, one core"
        self.safety: Safety = peer.safety

    def writes(self, batches: Sequence[Batch]) -> Task:
        task = self._peer.writes(batches)

        def run() -> None:
            with _on_one_core():
                task()

        return run

    def scores(self, members: Sequence[str]) -> list[int]:
        return self._peer.scores(members)


@contextmanager
def _on_one_core() -> Iterator[None]:
    """Return a context manager that binds all threads of this process to one core."""
    cores = os.sched_getaffinity(0)
    _place({max(cores)})
    try:
        yield
    finally:
        _place(cores)


def _place(cores: set[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # the thread has ended meanwhile
            os.sched_setaffinity(int(thread.name), cores)
