"""Convert answers to plain lists and dicts, for comparison with the expected values in a test."""

from __future__ import annotations

import laurels


def members(page: laurels.Page | None) -> list[str]:
    """Return the members of a page, in order."""
    assert page is not None
    return [entry.member for entry in page.entries]


def scores(page: laurels.Page) -> dict[str, object]:
    """Return the score of each member on a page, by member."""
    return {entry.member: entry.score for entry in page.entries}


def ranks(page: laurels.Page) -> list[int]:
    """Return the ranks on a page, in order."""
    return [entry.rank for entry in page.entries]
