"""A closed period that is about to be sealed."""

from msgspec import Struct

from laurels.model.board import Board
from laurels.timeline.calendar import Period

from .archive.segment import PeriodKey, WrittenPeriod


class SealDraft(Struct, frozen=True):
    """A closed period that is in the archive and is about to be sealed at `now_ms`. `board` is the
    definition at its closing."""

    uid: str
    board: Board
    window: str
    instance: int
    period: Period
    now_ms: int
    key: PeriodKey
    written: WrittenPeriod
