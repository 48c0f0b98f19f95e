"""For how long the machine itself keeps a program from running: run by the bench as a process.

`python -m bench.rolling.hiccups` sleeps half a millisecond over and over until its input ends, then
prints the seconds by which it woke latest. No lock and no interpreter of ours is in that, so a wait
of ours that is not much longer says more about the machine than about laurels.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

_PAUSE_SECONDS = 0.0005


class Hiccups:
    """The longest one, in seconds, of what went on inside `watching`."""

    longest = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        with subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            try:
                yield
            finally:
                told, _ = child.communicate()
        self.longest = float(told)


def main() -> None:
    ended = Thread(target=sys.stdin.read)
    ended.start()
    print("begun", flush=True)
    longest = 0.0
    last = False
    while not last:
        last = not ended.is_alive()
        asked = time.perf_counter()
        time.sleep(_PAUSE_SECONDS)
        longest = max(longest, time.perf_counter() - asked - _PAUSE_SECONDS)
    print(longest)


if __name__ == "__main__":
    main()
