from pathlib import Path

import pytest

from .running import Shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """Runs commands on a folder that is not there yet."""
    return Shell(monkeypatch, tmp_path)
