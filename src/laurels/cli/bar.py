"""The progress bar of long operations."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _CountAndRate(ProgressColumn):
    """The number of lines or events done, and their rate per second."""

    def render(self, task: Task) -> Text:
        count, unit = task.fields["count"], task.fields["unit"]
        rate = f", {count / task.elapsed:,.0f}/s" if task.elapsed else ""
        return Text(f"{count:,} {unit}{rate}")


def bar() -> Progress | None:
    """Return a progress bar on standard error, or None if that is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return None
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        _CountAndRate(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
