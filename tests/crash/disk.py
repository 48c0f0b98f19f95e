"""A disk that fails at a chosen call. `failing_io.c` is compiled to a library, called the shim. The
shim carries out the file calls of a process that preloads it, and lets one of them fail.

A run takes only a fraction of a second, because the process with the shim (`stage.py`) loads
everything once and forks for each run. The shim starts to work in the fork, when it gets the name
of its folder.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.redis.programs import skip_or_fail

SOURCE = Path(__file__).with_name("failing_io.c")
KILL = 0
KILLED = 137
SECONDS = 60


@dataclass(frozen=True)
class Fault:
    """The failure of call number `at`, or no failure if `at` is 0. `number` is the errno of the
    failed call, or `KILL` to end the process at the call. With `stays`, every later call fails,
    too. With `half`, call `at`, if it is a write, first writes half of its data. If `number` is an
    errno, the call then returns the length of that half, and the next call fails. With `reads`,
    calls that read are counted and can fail, too."""

    at: int = 0
    number: int = KILL
    stays: bool = False
    half: bool = False
    reads: bool = False

    def settings(self) -> dict[str, str]:
        """Return the environment variables that configure the shim."""
        return {
            "LAURELS_TEST_IO_AT": str(self.at),
            "LAURELS_TEST_IO_ERRNO": str(self.number),
            "LAURELS_TEST_IO_STAY": str(int(self.stays)),
            "LAURELS_TEST_IO_HALF": str(int(self.half)),
            "LAURELS_TEST_IO_READS": str(int(self.reads)),
        }

    def __str__(self) -> str:
        what = errno.errorcode[self.number] if self.number else "end"
        kinds = {"half": self.half, "stays": self.stays, "reads": self.reads}
        where = f" at {self.at}" if self.at else ""
        return " ".join([what, *(kind for kind, is_so in kinds.items() if is_so)]) + where


def compiled(folder: Path) -> Path:
    """Return the shim as a compiled library. Without a C compiler, skip the test or, under CI,
    fail it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        skip_or_fail("no C compiler is installed: apt-get install -y gcc")
    library = folder / "failing_io.so"
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library)]
    subprocess.run([compiler, *options, str(SOURCE), "-ldl"], check=True, timeout=120)
    return library


class Stage:
    """The process with the shim, which runs parts of `play.py`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def play(self, part: str, folder: Path, reports: Path, settings: dict[str, str]) -> int:
        """Run a part (of `play.PARTS`) on a folder in a fork, and append its reports to a file.
        Return the exit code, which is negative if a signal ended the fork."""
        request = {
            "part": part,
            "folder": str(folder),
            "reports": str(reports),
            "settings": {"LAURELS_TEST_IO_FOLDER": str(folder), **settings},
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def staged(library: Path) -> Iterator[Stage]:
    """Start the process with the shim, and end it when the context ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash.stage"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LD_PRELOAD": str(library)},
    ) as process:
        yield Stage(process)
        assert process.stdin is not None
        process.stdin.close()
