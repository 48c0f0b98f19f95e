"""A description of the machine on which figures were measured."""

import os
import platform
import sqlite3
import subprocess
import time
from pathlib import Path

import msgspec
from tests.redis.programs import REDIS, on_path

_PROBE_BYTES = 4096
_PROBES = 200


class Machine(msgspec.Struct, frozen=True):
    """A machine and its software. `fdatasync_us` is the median time to append 4 KiB and flush
    them."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    filesystem: str
    fdatasync_us: float
    python: str
    sqlite: str
    redis: str

    def line(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib:.0f} GiB, {self.kernel}, "
            f"{self.filesystem} (fdatasync of 4 KiB: {self.fdatasync_us:.0f} µs), "
            f"Python {self.python}, SQLite {self.sqlite}, {self.redis}"
        )


def describe(folder: Path) -> Machine:
    """Describe this machine. The file system is that of `folder`, in which durable stores write."""
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30,
        kernel=f"{platform.system()} {platform.release()}",
        filesystem=_filesystem(folder),
        fdatasync_us=_fdatasync_us(folder),
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        redis=_redis(),
    )


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _filesystem(folder: Path) -> str:
    """Return the type of the file system that contains a folder."""
    path = folder.resolve()
    mounts = (line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines())
    above = [(len(point), kind) for point, kind in mounts if path.is_relative_to(point)]
    return max(above)[1]


def _fdatasync_us(folder: Path) -> float:
    probe = folder / "fdatasync-probe"
    times = []
    with probe.open("wb", buffering=0) as file:
        for _ in range(_PROBES):
            start = time.perf_counter()
            file.write(bytes(_PROBE_BYTES))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    probe.unlink()
    return sorted(times)[_PROBES // 2] * 1e6


def _redis() -> str:
    program = on_path(REDIS.program)
    if program is None:
        return "no redis-server"
    completed = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    version = next(word for word in completed.stdout.split() if word.startswith("v="))
    return f"Redis {version[2:]}"
