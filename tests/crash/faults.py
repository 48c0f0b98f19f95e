"""Every kind of failure at every call: run `play.py` on a failing disk, and check the folder that
each run leaves."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.crash.disk import KILL, KILLED, Fault, Stage
from tests.crash.verdict import StepReports, judge

KINDS: Sequence[Fault] = (
    Fault(number=errno.ENOSPC),
    Fault(number=errno.EIO),
    Fault(number=errno.ENOSPC, half=True),
    Fault(number=errno.EIO, half=True),
    Fault(number=errno.ENOSPC, stays=True),
    Fault(number=errno.EIO, stays=True),
    Fault(number=errno.ENOSPC, stays=True, half=True),
    Fault(number=KILL),
    Fault(number=KILL, half=True),
)
READS = Fault(number=errno.EIO, reads=True)
STEPS_BEFORE = (0.3, 0.55, 0.8)
"""The first part is killed after each of these fractions of its calls. Then the second part runs on
the folder that the kill has left."""


@dataclass(frozen=True)
class Scene:
    """A part (of `play.PARTS`) to run on a copy of the folder `before` or, if `before` is None, on
    a new folder. `reports` are the reports of the run that left the folder `before`. If no call
    fails, the part makes `calls_with_reads` calls, and `calls` of them do not read."""

    name: str
    part: str
    before: Path | None
    reports: bytes
    calls: int = 0
    calls_with_reads: int = 0


def scenes(stage: Stage, base: Path) -> list[Scene]:
    """Return a scene on a new folder, and scenes on folders that an earlier run has closed or that
    were left by a kill."""
    base.mkdir()
    new = _counted(stage, Scene("new", "first", None, b""), base)
    result = [new]
    for share in (0.0, *STEPS_BEFORE):
        at = round(new.calls * share)
        before, reports = base / f"before-{at}", base / f"reports-{at}"
        stage.play("first", before, reports, Fault(at).settings())
        name = f"killed at {at}" if at else "closed"
        again = Scene(name, "second", before, reports.read_bytes())
        result.append(_counted(stage, again, base))
    return result


def _counted(stage: Stage, scene: Scene, base: Path) -> Scene:
    """Return the scene with its numbers of calls, counted in a run without failures."""
    counts = []
    for reads in (False, True):
        work, trace = base / "counted", base / "trace"
        trace.unlink(missing_ok=True)
        settings = {**Fault(reads=reads).settings(), "LAURELS_TEST_IO_TRACE": str(trace)}
        code, reports = _played(stage, scene, settings, work)
        assert (code, reports.failed) == (0, {}), (scene.name, code, reports)
        judge(work, reports)
        counts.append(len(trace.read_text().splitlines()))
    return replace(scene, calls=counts[0], calls_with_reads=counts[1])


def _played(
    stage: Stage, scene: Scene, settings: dict[str, str], folder: Path
) -> tuple[int, StepReports]:
    """Run a scene in a folder; return the exit code and the reports."""
    reports = folder.with_name(f"{folder.name}.reports")
    shutil.rmtree(folder, ignore_errors=True)
    if scene.before is not None:
        shutil.copytree(scene.before, folder)
    reports.write_bytes(scene.reports)
    code = stage.play(scene.part, folder, reports, settings)
    return code, StepReports.read(reports)


def survive(stage: Stage, scene: Scene, fault: Fault, folder: Path) -> set[int]:
    """Run a scene with a fault, and check the folder. Return the steps that are in the folder
    although no success was reported for them."""
    try:
        code, reports = _played(stage, scene, fault.settings(), folder)
        assert code == (0 if fault.number else KILLED), code
        return judge(folder, reports)
    except BaseException as error:
        error.add_note(f"{scene.name}: {fault}")
        raise


def every(scene: Scene, kind: Fault) -> Iterator[Fault]:
    """Yield a fault of this kind for every call of a scene."""
    calls = scene.calls_with_reads if kind.reads else scene.calls
    for at in range(1, calls + 1):
        yield replace(kind, at=at)
