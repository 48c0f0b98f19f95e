"""The options of a window for its closed periods: `archive`, `archive_every` and `prizes`. Pure.

day:archive=forever the final standings of every day week:archive=12 those of the last 12 weeks
30d=rolling:30d/1d,archive=forever,archive_every=1d the ranking of the window at each midnight
day:prizes={"list":[{"name":"gold","ranks":[1,1]}]} with prizes; archived for ever

In text, `prizes` is the last option. Its value is JSON, up to the end of the text.
"""

import re
from collections.abc import Iterator

from laurels.errors import BoardInvalid
from laurels.model.durations import duration_ms, duration_text
from laurels.model.prizes import Prizes
from laurels.model.validation import integer_within, safe_repr

from .closing import FOREVER

MAX_ARCHIVE = 1_000_000
MIN_EVERY_MS = 60_000
ARCHIVING = ("archive", "archive_every", "prizes")
"""The options of a window that decide about its closed periods."""
_FOREVER_TEXT = "forever"
_PRIZES = re.compile(r"[:,]prizes=(?=\{)")


def archive_of(value: object) -> int:
    """Return how many closed periods are archived, `FOREVER` for all. Raise BoardInvalid for
    anything but "forever" or a number from 1."""
    if value == _FOREVER_TEXT:
        return FOREVER
    if (count := integer_within(value, 1, MAX_ARCHIVE)) is not None:
        return count
    raise BoardInvalid(
        f"expected forever or an integer from 1 to {MAX_ARCHIVE:,} for archive, got "
        f"{safe_repr(value)}"
    )


def archiving_options(
    archive: int | None, every_ms: int | None, prizes: Prizes | None
) -> Iterator[str]:
    """Yield the options in the text of a window, `prizes` last."""
    if archive is not None:
        yield f"archive={archive or _FOREVER_TEXT}"
    if every_ms is not None:
        yield f"archive_every={duration_text(every_ms)}"
    if prizes is not None:
        yield f"prizes={prizes.text}"


def without_prizes(text: str) -> tuple[str, str | None]:
    """Return the text of a window without the option `prizes`, and the JSON of that option; None
    if the text does not have it."""
    match = _PRIZES.search(text)
    return (text, None) if match is None else (text[: match.start()], text[match.end() :])


def archiving_errors(
    step: str | None, archive: int | None, every_ms: int | None, prizes: Prizes | None
) -> Iterator[str]:
    """Yield the errors in the combination of these options. `step` is the step of a rolling
    window, None for other windows."""
    archived = archive is not None or prizes is not None
    if step is not None and archived and every_ms is None:
        yield (
            "a rolling window has no periods that end: write archive_every, as in archive_every=1d"
        )
    if every_ms is None:
        return
    if every_ms < MIN_EVERY_MS:
        yield f"expected archive_every of 1m or longer, got {duration_text(every_ms)}"
    if not archived:
        yield "archive_every needs archive or prizes: write archive=forever"
    step_ms = 0 if step is None else duration_ms(step)
    if step_ms and (every_ms == 0 or every_ms % step_ms):
        got = duration_text(every_ms)
        yield f"expected archive_every to be whole steps of {step}, got {got}"
