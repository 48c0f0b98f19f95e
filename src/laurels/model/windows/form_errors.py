"""The errors in the combination of settings of a window, where each setting is valid alone."""

from collections.abc import Iterator, Mapping

from laurels.model.durations import DAY_MS, duration_ms, duration_text

from .forms import WindowForm, in_days
from .weighing import MAX_HALF_LIFE_MS, MIN_HALF_LIFE_MS

MIN_STEP_MS = 1_000
MIN_REFRESH_MS = 1_000
MAX_STEPS = 10_000


def rolling_errors(form: WindowForm, fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the errors in the combination of a rolling window's settings, where each setting is
    valid alone."""
    if fields.get("span") is None or fields.get("step") is None:
        yield "a rolling window has a span and a step: write rolling:7d/1h"
    if form.span is not None and form.refresh_ms is not None:
        yield from _refresh_errors(form.span, form.refresh_ms)
    if form.archive_every_ms is not None and form.refresh_ms is not None:
        yield "archive_every needs a ranking that is always current: leave refresh out"
    if form.step is None:
        return
    local_ms = form.refresh_ms or form.archive_every_ms or 1
    if form.tz is not None and not in_days(form.step) and local_ms % DAY_MS:
        yield f"steps of {form.step} take no tz: leave it out, as only steps of days have a zone"
    step_ms = duration_ms(form.step)
    if step_ms < MIN_STEP_MS or form.step.endswith("ms"):
        yield f"expected a step of whole seconds, 1s or longer, got {form.step}"
    elif form.span is not None:
        yield from _span_errors(form, form.span, form.step)


def _refresh_errors(span: str, refresh_ms: int) -> Iterator[str]:
    """Yield the errors of the refresh interval of a window with this span."""
    refresh = duration_text(refresh_ms)
    if refresh_ms < MIN_REFRESH_MS or refresh_ms % 1_000:
        yield f"expected refresh in whole seconds, 1s or longer, got {refresh}"
    elif refresh_ms > duration_ms(span):
        yield f"expected refresh to be at most the span {span}, got {refresh}"


def _span_errors(form: WindowForm, span: str, step: str) -> Iterator[str]:
    """Yield the errors in the combination of a span and a step, where both are valid alone."""
    span_ms, step_ms = form.lengths_ms
    steps, rest = divmod(span_ms, step_ms)
    if in_days(step) and not in_days(span):
        yield (
            f"steps of {step} are days of the calendar: write the span {span} in days, "
            "or the step in hours"
        )
    elif rest:
        yield f"expected a span of whole steps of {step}, got {span}"
    elif not 2 <= steps <= MAX_STEPS:
        longer = "span" if steps < 2 else "step"
        yield (
            f"expected 2 to {MAX_STEPS:,} steps, got {steps:,} of {span}/{step}: "
            f"write a longer {longer}"
        )
    elif form.grace_ms is not None and form.grace_ms > form.longest_grace_ms:
        longest = duration_text(form.longest_grace_ms)
        grace = duration_text(form.grace_ms)
        yield f"expected grace to be at most span less step, {longest}, got {grace}"


def decay_errors(form: WindowForm, fields: Mapping[str, object]) -> Iterator[str]:
    """Yield an error if a decay window has no half-life, or one that is too short or too long."""
    if fields.get("half_life") is None:
        yield "a decay window has a half-life: write decay:6h"
    elif form.half_life is not None:
        length_ms = duration_ms(form.half_life)
        if not MIN_HALF_LIFE_MS <= length_ms <= MAX_HALF_LIFE_MS:
            least, most = duration_text(MIN_HALF_LIFE_MS), duration_text(MAX_HALF_LIFE_MS)
            yield f"expected a half-life from {least} to {most}, got {form.half_life}"
