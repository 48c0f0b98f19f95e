"""Boards with refreshed windows."""

from __future__ import annotations

import laurels


def long(**more: object) -> laurels.Board:
    """Return a board with a rolling window of 30 days that is refreshed once an hour."""
    fields: dict[str, object] = {"windows": ["30d=rolling:30d/1d,refresh=1h", "all"]}
    return laurels.Board("b", **{**fields, **more})  # type: ignore[arg-type]
