"""If a file has a flipped bit or has lost its end, the folder either has everything that was
acknowledged, or is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.conftest import Scaled
from tests.crash.damage import damages, try_out, whole_folder


@pytest.mark.parametrize("seed", range(2))
def test_damage_loses_nothing_or_is_reported(tmp_path: Path, seed: int, scaled: Scaled) -> None:
    folder = tmp_path / "whole"
    expected = whole_folder(folder, tmp_path / "made")
    became = Counter(
        (damage.file.split("-00")[0], try_out(folder, damage, tmp_path / "work", expected))
        for damage in damages(folder, scaled(12, 750), Random(seed))
    )
    assert {file for file, _ in became} >= {"log.db", "log.db-wal", "log.mark", "snapshot"}
    assert became["log.db-wal", "log_damaged"]
    assert became["snapshot", "whole"]
