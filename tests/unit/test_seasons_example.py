"""The example of seasons runs, and its standings equal those that are computed anew."""

from __future__ import annotations

import pytest
from examples import seasons


def test_every_month_has_the_standings_of_a_recomputation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert seasons.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == (
        "18 months have the standings of a recomputation; 3600.00 dollars were paid"
    )
    assert "a token takes the places of a customer in 19 sealed standings" in lines
    assert "  19339 gold: -100.00" in lines
    assert "  14894 gold: 100.00" in lines
