"""The payouts of the oracle: what members win in a sealed period, and what a correction changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import quote

from tests.definitions import Place, Scope
from tests.oracle_board import OracleBoard
from tests.oracle_forms import scope_text
from tests.prize_definitions import PrizeDef, PrizesDef
from tests.prizes import recounted


class SealedPlace(NamedTuple):
    """A sealed period: its board's uid and name, its window, and its label, which is empty in a
    window with only one period."""

    uid: int
    board: str
    window: str
    period: str


class Owed(NamedTuple):
    """What a member wins with a prize in one scope, in units of the prize's last decimal place;
    None if the prize has no amount."""

    scope: Scope
    member: str
    prize: PrizeDef
    position: int
    units: int | None


@dataclass
class OraclePayout:
    """A payout. `corrects` is the payout that was due already when this one was made to correct
    it."""

    place: SealedPlace
    owed: Owed
    revision: int
    made_ms: int
    due_ms: int
    withdrawn: bool = False
    corrects: OraclePayout | None = None
    superseded: int | None = None
    reference: str | None = None
    confirmed_ms: int | None = None
    is_erased: bool = False
    is_compared: bool = False

    @property
    def id(self) -> str:
        """Return the id without the uid of the board."""
        place, owed = self.place, self.owed
        parts = (
            place.window,
            place.period,
            scope_text(owed.scope.labels),
            owed.member,
            owed.prize.name,
            str(self.revision),
        )
        return "/".join(quote(part, safe="") for part in parts)

    @property
    def amount(self) -> int | Decimal | None:
        """Return the amount as laurels returns it."""
        units, scale = self.owed.units, self.owed.prize.scale
        return Decimal(units).scaleb(-scale) if units is not None and scale else units

    @property
    def is_open(self) -> bool:
        """Return whether the payout is neither confirmed nor superseded."""
        return self.superseded is None and self.reference is None

    def state(self, now_ms: int) -> str:
        """Return the state of the payout."""
        if self.superseded is not None:
            return "superseded"
        if self.reference is not None:
            return "confirmed"
        return "due" if self.due_ms <= now_ms else "pending"

    def has_been_due(self, now_ms: int) -> bool:
        """Return whether the payout is due, or was due before it was confirmed."""
        return self.superseded is None and self.due_ms <= now_ms


def awards(
    prizes: PrizesDef, board: OracleBoard, places: Sequence[Place], scope: Scope
) -> list[Owed]:
    """Return what the members of a whole ranking win."""
    position = {place.member: place.position for place in places}
    prize_of = {prize.name: prize for prize in prizes.list}
    columns = board.definition.columns

    def reaches(place: Place, least: Sequence[int]) -> bool:
        decimals = 6 if place.row.place is not None else 0
        bound = [
            each * 10 ** (column.scale + decimals)
            for each, column in zip(least, columns, strict=False)
        ]
        return board.direct(place.score[: len(bound)]) <= board.direct(type(place.score)(bound))

    ranked = [(place.member, _Tied(place, board)) for place in places]
    counted = recounted(prizes, ranked, lambda tied, least: reaches(tied.place, least))
    return [
        Owed(scope, member, prize_of[name], position[member], units)
        for member, name, units in counted
    ]


class _Tied:
    """A place that equals all places with the same columns."""

    def __init__(self, place: Place, board: OracleBoard) -> None:
        self.place = place
        self._key = board.score_key(place.row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tied) and self._key == other._key

    __hash__ = None  # type: ignore[assignment]


def correct(
    present: Sequence[OraclePayout],
    owed: Iterable[Owed],
    place: SealedPlace,
    revision: int,
    now_ms: int,
    due_ms: int,
) -> list[OraclePayout]:
    """Supersede the pending payouts of a period that a new revision changes. Return the payouts to
    be added, which together with the others are what is owed."""
    wanted = {(each.scope, each.member, each.prize.name): each for each in owed}
    keys = dict.fromkeys(wanted)
    keys.update(dict.fromkeys(_key(payout) for payout in present))
    added = []
    for key in keys:
        own = [each for each in present if each.superseded is None and _key(each) == key]
        pending = [each for each in own if each.state(now_ms) == "pending"]
        final = [each for each in own if each not in pending]
        missing = _missing(final, wanted.get(key))
        payout = None
        if missing is not None:
            units, withdrawn = missing
            base = wanted.get(key) or final[0].owed
            payout = OraclePayout(
                place, base._replace(units=units), revision, now_ms, due_ms, withdrawn
            )
            payout.corrects = final[0] if final else None
        if payout is not None and [_content(each) for each in pending] == [_content(payout)]:
            continue
        for each in pending:
            each.superseded = revision
        added += [payout] if payout is not None else []
    return added


def _key(payout: OraclePayout) -> tuple[Scope, str, str]:
    return payout.owed.scope, payout.owed.member, payout.owed.prize.name


def _content(payout: OraclePayout) -> tuple[int | None, bool, str | None]:
    corrects = payout.corrects
    return payout.owed.units, payout.withdrawn, None if corrects is None else corrects.id


def _missing(final: Sequence[OraclePayout], want: Owed | None) -> tuple[int | None, bool] | None:
    """Return the units that are missing beside the payouts that cannot change any more, and whether
    a prize without an amount has to be taken back; None if nothing is missing."""
    if not final:
        return None if want is None else (want.units, False)
    if final[0].owed.units is None:
        has = sum(-1 if each.withdrawn else 1 for each in final) > 0
        return None if has == (want is not None) else (None, has)
    units = (0 if want is None else want.units or 0) - sum(each.owed.units or 0 for each in final)
    return (units, False) if units else None


def erase_from(payouts: Iterable[OraclePayout], member: str, token: str) -> None:
    """Put a token in the place of a member in payouts."""
    for payout in payouts:
        if payout.owed.member == member:
            payout.owed = payout.owed._replace(member=token)
            payout.is_erased = True
