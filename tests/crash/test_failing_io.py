"""A disk that fails at any call: no acknowledged data is lost, and the error is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Scaled
from tests.crash.disk import Fault, Stage, compiled, staged
from tests.crash.faults import KINDS, READS, Scene, every, scenes, survive


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(compiled(tmp_path_factory.mktemp("shim"))) as started:
        yield started


@pytest.fixture(scope="module")
def played(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> list[Scene]:
    return scenes(stage, tmp_path_factory.mktemp("scenes") / "base")


@pytest.mark.parametrize("kind", [*KINDS, READS], ids=str)
def test_nothing_acknowledged_is_lost(
    stage: Stage, played: list[Scene], tmp_path: Path, kind: Fault, scaled: Scaled
) -> None:
    faults = [(scene, fault) for scene in played for fault in every(scene, kind)]
    shift = [*KINDS, READS].index(kind)
    apart = len(faults) // scaled(1, len(faults))
    for scene, fault in faults[shift * apart // 10 :: apart]:
        survive(stage, scene, fault, tmp_path / "folder")
