"""After a power cut at any moment, everything that was acknowledged is on the disk and can be
read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.conftest import Scaled
from tests.crash.disk import Stage, compiled, staged
from tests.crash.power_cut import survive_cut, traced


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(compiled(tmp_path_factory.mktemp("shim"))) as started:
        yield started


def test_nothing_acknowledged_is_lost(stage: Stage, tmp_path: Path, scaled: Scaled) -> None:
    run = traced(stage, tmp_path / "run")
    assert {call.name for call in run.calls} >= {"report", "fsync", "rename", "unlink", "pwrite"}
    places = scaled(8, len(run.calls))
    for after in range(len(run.calls), 0, -(len(run.calls) // places)):
        survive_cut(run, after, None, tmp_path / "work")
        survive_cut(run, after, Random(after), tmp_path / "work")
