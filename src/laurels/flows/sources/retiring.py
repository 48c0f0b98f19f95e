"""Retire a source, so that boards no longer wait for it."""

import msgspec
from msgspec.structs import replace

from laurels.api.leaderboards import Leaderboards
from laurels.core.stream_time import passed_ms

from .reader import decode_position
from .settings import SourceSettings


def retire(lb: Leaderboards, settings: SourceSettings) -> list[str]:
    """Make boards stop waiting for a source, and return the names of these boards. The boards keep
    the source's position, so the source may run again later. Raises PositionMoved if the source is
    running now."""
    retired = []
    for board in lb.boards():
        text = lb.position(board.name, settings.key) if settings.feeds(board.name) else None
        if text is None or passed_ms(text) is None:
            continue
        new_text = msgspec.json.encode(replace(decode_position(text), passed_ms=None)).decode()
        lb.submit_many(board.name, [], position=(settings.key, new_text, text))
        retired.append(board.name)
    return retired
