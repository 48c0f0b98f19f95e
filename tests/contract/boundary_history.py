"""Random histories of a board whose rolling window is archived at boundaries, and a recount of what
the window showed at each of them."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import laurels
from tests.contract import reading
from tests.contract.deployments import Deployment

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
KOLKATA_MS = 330 * MINUTE


class AnyClock(laurels.ManualClock):
    """A clock that can also be set back."""

    def set(self, now_ms: int) -> None:
        self._now_ms = now_ms


def create(lb: laurels.Leaderboards, *windows: str, **fields: Any) -> None:
    lb.create(
        laurels.Board(
            "b", windows=windows, **{"changes": "90d", "grace": "2h", "ledger": "main", **fields}
        )
    )


def scores(lb: laurels.Leaderboards, **ranking: Any) -> dict[str, object]:
    return reading.scores(lb.top("b", **ranking))


class Form(NamedTuple):
    """A rolling window: its text, the length of a step, how many steps it counts, how often it is
    archived, the grace, and how far the time of its zone is ahead of UTC."""

    text: str
    step_ms: int
    steps: int
    every_ms: int
    grace_ms: int
    ahead_ms: int = 0

    def step_of(self, at_ms: int) -> int:
        return (at_ms + self.ahead_ms) // self.step_ms

    def end_of(self, step: int) -> int:
        return (step + 1) * self.step_ms - self.ahead_ms

    def boundaries(self, from_ms: int, to_ms: int) -> list[int]:
        """Return the ends of the archived steps after one instant and up to another."""
        every_ms, ahead_ms = self.every_ms, self.ahead_ms
        first = (from_ms + ahead_ms) // every_ms + 1
        last = (to_ms + ahead_ms) // every_ms
        return [number * every_ms - ahead_ms for number in range(first, last + 1)]


FORMS = [
    Form("w=rolling:7d/1h,grace=2h", HOUR, 168, DAY, 2 * HOUR),
    Form("w=rolling:3d/1d,tz=Asia/Kolkata,grace=1d", DAY, 3, DAY, DAY, KOLKATA_MS),
    Form("w=rolling:6h/1h,grace=5h", HOUR, 6, 2 * HOUR, 5 * HOUR),
    Form("w=rolling:60m/1m,grace=5m", MINUTE, 60, 15 * MINUTE, 5 * MINUTE),
]


class Happened(NamedTuple):
    """A write in the history: an event that was counted, the removal of a member (`value` is None),
    or the beginning or the end of a member's hiding (`hides`)."""

    now_ms: int
    member: str
    at_ms: int = 0
    value: int | None = None
    room: str = ""
    hides: bool | None = None


def shown(form: Form, history: list[Happened], end_ms: int, room: str | None) -> dict[str, object]:
    """Return the ranking that the window showed right before `end_ms`, computed by counting every
    event again."""
    step = form.step_of(end_ms - 1)
    totals: dict[str, int] = {}
    hidden: set[str] = set()
    for each in history:
        if each.hides is not None:
            if each.now_ms <= end_ms:
                (hidden.add if each.hides else hidden.discard)(each.member)
        elif each.now_ms >= end_ms:
            continue
        elif each.value is None:
            totals.pop(each.member, None)
        elif step - form.steps < form.step_of(each.at_ms) <= step and room in (None, each.room):
            totals[each.member] = totals.get(each.member, 0) + each.value
    return {member: total for member, total in totals.items() if member not in hidden}


def act(
    random: Random, lb: laurels.Leaderboards, clock: AnyClock, form: Form, history: list[Happened]
) -> None:
    """Make a random write, and add it to the history."""
    now_ms, member = clock.now_ms(), f"m{random.randint(0, 9)}"
    kinds = ["event", "time", "long", "remove", "hide", "show"]
    match random.choices(kinds, (12, 6, 1, 1, 1, 1))[0]:
        case "event":
            late_ms = random.choice([0, 0, 1, form.grace_ms // 2, 2 * form.grace_ms])
            room, value = random.choice("xy"), random.randint(-3, 9)
            lb.submit("b", member, value, at=now_ms - late_ms, labels={"room": room})
            if now_ms <= form.end_of(form.step_of(now_ms - late_ms)) + form.grace_ms:
                history.append(Happened(now_ms, member, now_ms - late_ms, value, room))
        case "time":
            clock.advance(random.choice([1, form.step_ms // 3, form.step_ms]))
        case "long":
            clock.advance(random.randint(form.every_ms, form.steps * form.step_ms * 2))
        case "remove":
            lb.remove("b", member)
            history.append(Happened(now_ms, member))
        case "hide":
            lb.hide("b", member, "a bot")
            history.append(Happened(now_ms, member, hides=True))
        case _:
            lb.show("b", member)
            history.append(Happened(now_ms, member, hides=False))


def ensure_archived_as_shown(
    deployment: Deployment,
    clock: AnyClock,
    form: Form,
    random: Random,
    verified: int,
    *,
    writes: int,
    restarts: bool,
) -> None:
    """Make many random writes, then compare the archived ranking of each boundary with a recount.
    Verify only some of the sealed periods, because each verification reads the whole log."""
    began_ms = clock.now_ms()
    window = f"{form.text},archive=forever,archive_every={form.every_ms // MINUTE}m"
    create(deployment.lb, window, "all", scopes=[[], ["room"]], tie="member")
    history: list[Happened] = []
    for _ in range(writes):
        act(random, deployment.lb, clock, form, history)
        if random.random() < 0.03:
            deployment.lb.seal()
        if restarts and random.random() < 0.05:
            deployment.reopen()
    lb = deployment.lb
    lb.seal()
    sealed = {each.end_ms: each for each in lb.archived("b")}
    for end_ms in form.boundaries(began_ms, clock.now_ms()):
        expected = shown(form, history, end_ms, None)
        if end_ms not in sealed:
            assert expected == {}
            continue
        of: dict[str, Any] = {"window": "w", "period": sealed[end_ms].period, "limit": 100}
        assert scores(lb, **of) == expected
        for room in "xy":
            assert scores(lb, labels={"room": room}, **of) == shown(form, history, end_ms, room)
    assert {*sealed} <= {*form.boundaries(began_ms, clock.now_ms())}
    for each in random.sample([*sealed.values()], min(verified, len(sealed))):
        assert lb.verify("b", window="w", period=each.period).verified
    lb.check()
    lb.delete("b")
