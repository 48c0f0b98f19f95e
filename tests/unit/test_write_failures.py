"""While the disk refuses writes, one line per minute is logged. Another line is logged after the
first write that succeeds."""

from __future__ import annotations

import logging

import pytest

from laurels.errors import StorageFailed
from laurels.stores.local.write_failures import WriteFailures


def test_write_failures_log_one_line_a_minute_and_one_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seconds = [0.0]
    failures = WriteFailures(lambda: seconds[0])
    full = StorageFailed("the log could not be written (disk is full)")
    with caplog.at_level(logging.INFO, "laurels"):
        for second in range(121):
            seconds[0] = float(second)
            failures.failed(full)
            failures.failed(full)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert "1 in a row" in lines[0]
    assert "121 in a row" in lines[1]
    assert all("disk is full" in line for line in lines)
    assert (failures.count, failures.reason) == (242, full.what)
    with pytest.raises(StorageFailed):
        failures.ensure_none()

    caplog.clear()
    with caplog.at_level(logging.INFO, "laurels"):
        failures.succeeded()
        failures.succeeded()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "242" in line
    failures.ensure_none()
    assert failures.count == 242

    failures.failed(full)
    assert "1 in a row" in caplog.records[-1].getMessage()
