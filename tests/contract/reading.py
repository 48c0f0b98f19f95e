"""Answers put as plain lists, to be compared with what a test writes down."""

from __future__ import annotations

import laurels


def members(page: laurels.Page | None) -> list[str]:
    """Who is on a page, in order."""
    assert page is not None
    return [entry.member for entry in page.entries]


def scores(page: laurels.Page) -> dict[str, object]:
    """The score of each member on a page, in order."""
    return {entry.member: entry.score for entry in page.entries}


def ranks(page: laurels.Page) -> list[int]:
    """The ranks on a page, in order."""
    return [entry.rank for entry in page.entries]
