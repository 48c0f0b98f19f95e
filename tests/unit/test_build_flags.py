"""Every module of the engine is compiled, all with the same compiler flags."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the modules that setup.py describes."""
    described: dict[str, Any] = {}
    monkeypatch.chdir(_ROOT)
    monkeypatch.setattr("setuptools.setup", described.update)
    runpy.run_path("setup.py")
    return list(described["ext_modules"])


def test_all_modules_share_their_flags(modules: list[Any]) -> None:
    assert {tuple(module.extra_compile_args) for module in modules} == {("-O3", "-fwrapv")}


def test_every_source_is_the_module_of_its_path(modules: list[Any]) -> None:
    listed = {module.name: module.sources for module in modules}
    sources = [path.relative_to(_ROOT) for path in (_ROOT / "src").rglob("*.pyx")]
    assert listed == {
        ".".join(source.with_suffix("").parts[1:]): [source.as_posix()] for source in sources
    }
