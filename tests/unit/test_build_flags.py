"""Every module of the engine is compiled with the same flags."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent.parent
_SOURCES = _ROOT / "src" / "laurels"


def _modules() -> list[dict[str, Any]]:
    described = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    modules: list[dict[str, Any]] = described["tool"]["setuptools"]["ext-modules"]
    return modules


def test_all_modules_share_their_flags() -> None:
    flags = {
        str(module["name"]): {
            key: value for key, value in module.items() if key not in ("name", "sources")
        }
        for module in _modules()
    }
    different = {name: own for name, own in flags.items() if own != flags["laurels.engine.table"]}
    assert flags["laurels.engine.table"]["extra-compile-args"] == ["-O3", "-fwrapv"]
    assert different == {}


def test_every_source_is_a_module() -> None:
    listed = {source for module in _modules() for source in module["sources"]}
    found = {str(path.relative_to(_ROOT)) for path in _SOURCES.rglob("*.pyx")}
    assert listed == found
