"""Which periods of a board on an index server have no record yet, of their closing or their seal.
Pure."""

from collections.abc import Iterable, Mapping

from laurels.core.board_state import BoardState
from laurels.core.closing import WindowClosing, closes_at_all, final_ms_of, period_finality
from laurels.core.ranking_key import RankingKey
from laurels.timeline.instants import MAX_MS, MIN_MS

RETRY_MS = 1_000
"""After this many milliseconds of the board's time, a period that waits for a source is looked at
again."""


def may_be_open(
    state: BoardState, name: str, instance: int, closings: Mapping[str, WindowClosing]
) -> bool:
    """Return whether the window closes this period, and the period is not closed yet."""
    closing, window = closings[name], state.rules.windows[name]
    if name not in state.rules.closing or closing.is_closed(instance):
        return False
    if closing.floor is not None and instance <= closing.floor:
        return False
    period = window.period_of(instance)
    return closes_at_all(window, period) and final_ms_of(window, period) > closing.since_ms


def final_instances(state: BoardState, positions: Mapping[str, str], now_ms: int) -> dict[str, int]:
    """Return, for each window that closes periods, the newest instance that is final and may have
    no record yet. O(periods that wait for a source)."""
    newest: dict[str, int] = {}
    for name in state.rules.closing:
        window, closing = state.rules.windows[name], state.closing[name]
        if window.steps:
            newest |= _final_step(state, name, positions, now_ms)
            continue
        accepted_ms, _ = window.next_refusal(now_ms)
        period = window.period_at(now_ms if accepted_ms == MAX_MS else accepted_ms - 1)
        while final_ms_of(window, period) > closing.since_ms:
            instance = window.instance_of(period)
            if closing.floor is not None and instance <= closing.floor:
                break
            if period_finality(state.rules, window, period, positions, now_ms).final:
                newest[name] = instance
                break
            if period.start_ms <= MIN_MS:
                break
            period = window.period_at(period.start_ms - 1)
    return newest


def _final_step(
    state: BoardState, name: str, positions: Mapping[str, str], now_ms: int
) -> dict[str, int]:
    """Return the newest step of a rolling window that is final, is archived and may have no record
    yet, by the name of the window. Return nothing if there is none."""
    window, closing = state.rules.windows[name], state.closing[name]
    last = window.period_at(now_ms)
    steps: list[int | None] = [window.last_boundary(now_ms)]
    if now_ms >= last.end_ms:  # the board has ended
        steps.insert(0, window.instance_of(last))
    for step in steps:
        if step is None or (closing.floor is not None and step <= closing.floor):
            continue
        period = window.period_of(step)
        is_new = final_ms_of(window, period) > closing.since_ms
        if is_new and period_finality(state.rules, window, period, positions, now_ms).final:
            return {name: step}
    return {}


def rolling_names(state: BoardState) -> set[str]:
    """Return the names of the rolling windows that close periods."""
    return {name for name in state.rules.closing if state.rules.windows[name].steps}


def begun_before(state: BoardState) -> set[tuple[str, int]]:
    """Return the calendar periods that had begun when their window got its archive, were not final
    then, and may have no record yet, each as a window and an instance. Only in these periods, other
    scopes may have members although no event was counted in the scope of all events, since the
    board must have that scope as long as it closes periods."""
    found = set[tuple[str, int]]()
    for name in state.rules.closing.keys() - rolling_names(state):
        window, since_ms = state.rules.windows[name], state.closing[name].since_ms
        period = window.period_at(since_ms)
        while since_ms > MIN_MS and final_ms_of(window, period) > since_ms:
            if may_be_open(state, name, window.instance_of(period), state.closing):
                found.add((name, window.instance_of(period)))
            if period.start_ms <= MIN_MS:
                break
            period = window.period_at(period.start_ms - 1)
    return found


def decisive_boundaries(state: BoardState, now_ms: int) -> set[tuple[str, int]]:
    """Return, for each rolling window that closes periods, the newest archived step that has ended
    and, if the board has ended, its last step, each as a window and a step. Steps that have a
    record or need none are left out."""
    found = set[tuple[str, int]]()
    for name in state.rules.closing:
        window = state.rules.windows[name]
        if not window.steps:
            continue
        last = window.period_at(now_ms)
        steps = [window.last_boundary(now_ms)]
        if now_ms >= last.end_ms:  # the board has ended
            steps.append(window.instance_of(last))
        found |= {
            (name, step)
            for step in steps
            if step is not None and may_be_open(state, name, step, state.closing)
        }
    return found


def next_final_ms(state: BoardState, now_ms: int) -> int:
    """Return the next instant at which a period of a board may be due to be closed."""
    windows = [state.rules.windows[name] for name in state.rules.closing]
    times = [window.next_closing(now_ms) for window in windows]
    waiting = any(
        final_ms_of(state.rules.windows[name], state.rules.windows[name].period_of(each)) <= now_ms
        for name in state.rules.closing
        for each in state.closing[name].open
    )
    return min([*times, now_ms + RETRY_MS if waiting else MAX_MS])


def oldest_unsealed(state: BoardState, oldest: Mapping[str, int]) -> dict[str, int]:
    """Return, by window, the instance of the oldest period whose rankings must stay. `oldest` has
    the oldest period that each window keeps; a period that still has to be sealed must stay even if
    it is older."""
    kept = dict(oldest)
    for name in state.closing.keys() & kept.keys():
        kept[name] = min([kept[name], *_unsealed(state, name)])
    return kept


def oldest_boundaries(state: BoardState, now_ms: int) -> dict[str, int]:
    """Return, for each rolling window that closes periods, the oldest step that must stay: the
    oldest one at whose end the window is archived and not sealed, or the running step."""
    windows = [state.rules.windows[name] for name in state.closing if name in state.rules.windows]
    return {
        window.name: min(
            [window.instance_of(window.period_at(now_ms)), *_unsealed(state, window.name)]
        )
        for window in windows
        if window.steps
    }


def is_unsealed(state: BoardState, key: RankingKey) -> bool:
    """Return whether the ranking of a period must stay because the period is not sealed yet."""
    closing = state.closing.get(key.window)
    if closing is None:
        return False
    if key.instance in closing.closed:
        return True
    return key.window in state.rules.closing and may_be_open(
        state, key.window, key.instance, state.closing
    )


def _unsealed(state: BoardState, name: str) -> Iterable[int]:
    """Yield instances of a window. All its periods that still have to be sealed are at or after the
    least of these instances."""
    closing = state.closing[name]
    yield from closing.closed
    if name in state.rules.closing:
        window = state.rules.windows[name]
        first_ms = max(MIN_MS, closing.since_ms)
        if closing.floor is not None:
            first_ms = window.period_of(closing.floor).end_ms
        else:
            first_ms = max(MIN_MS, min(first_ms, window.next_refusal(first_ms)[0] - 1))
        yield window.instance_of(window.period_at(min(first_ms, MAX_MS)))
