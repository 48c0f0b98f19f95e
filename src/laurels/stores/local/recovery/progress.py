"""Reports the progress of opening a store.

A `Report` is a function that is called with the phase, the amount done and the total. It is set in
a context variable, since the code that opens a store is many calls below the code that can show
progress. It applies to the current thread or task, and to the tasks that it starts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Report = Callable[[str, int, int], None]


def _no_report(phase: str, done: int, total: int) -> None:
    pass


_report: ContextVar[Report] = ContextVar("opening_progress", default=_no_report)


def current_report() -> Report:
    """Return the report for stores opened in this context."""
    return _report.get()


@contextmanager
def reporting(report: Report) -> Iterator[None]:
    """Set the report for stores that are opened in this context."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)
