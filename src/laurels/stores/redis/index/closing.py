"""Freezes periods in a shard, and records in the first shard of a board which periods are closed
and sealed."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from laurels.core.changes.blocks import Block, WriteBlock
from laurels.core.closing import ClosedPeriod, SealedPeriod
from laurels.stores.redis.remote import Opened, StoredClosings

from .board_writes import BoardWrites

_CLOSED, _SEALED, _UNEXPIRED = "c", "s", "e"
_RESTORED = 500
"""The number of records of sealed periods that are written in one call."""
_closed = msgspec.json.Decoder(ClosedPeriod)
_sealed = msgspec.json.Decoder(SealedPeriod)


class PeriodClosing(BoardWrites):
    """The calls of the index that close and seal periods."""

    async def freeze(self, board: Opened, floors: Mapping[str, int], now_ms: int) -> None:
        """Freeze periods: of each window in `floors` all periods up to the instance that it has
        there. Repeating the call has no effect."""
        await self._operate("freeze", board, floors=dict(floors), now=now_ms)

    async def load_closings(self, board: Opened, windows: Sequence[str]) -> StoredClosings:
        """Return the closed and sealed periods of these windows."""
        changes, flat, fields = await self._operate("load_closings", board, names=list(windows))
        return StoredClosings(
            int(changes),
            {
                _period(name): _decoded(text)
                for name, text in zip(flat[::2], flat[1::2], strict=True)
            },
            _by_window(windows, fields[::2]),
            _by_window(windows, fields[1::2]),
            frozenset(
                _period(name)
                for name, text in zip(flat[::2], flat[1::2], strict=True)
                if text[0] == _UNEXPIRED
            ),
        )

    async def record_close(
        self, board: Opened, window: str, instance: int, closed: ClosedPeriod, recorded: WriteBlock
    ) -> bool:
        """Record that a period is closed. Return False if that was recorded before."""
        more = self._recording(board, recorded)
        return bool(
            await self._operate(
                "record_close",
                board,
                window=window,
                instance=instance,
                record=_encoded(closed),
                **more,
            )
        )

    async def record_floors(self, board: Opened, floors: Mapping[str, int]) -> None:
        """Record, for each window in `floors`, that the closings of all its periods up to this
        instance are recorded. Periods without entries get no record of their own."""
        await self._operate("record_floors", board, floors=dict(floors))

    async def record_seal(
        self,
        board: Opened,
        window: str,
        instance: int,
        before: ClosedPeriod | SealedPeriod,
        sealed: SealedPeriod,
        recorded: Block | None,
        trimmed: Collection[int] = (),
    ) -> bool:
        """Replace the record of a period by the record of its seal or of a new revision. Remove the
        records of `trimmed` instances. Return False if the period has another record than
        `before`."""
        more = self._recording(board, recorded)
        return bool(
            await self._operate(
                "record_seal",
                board,
                name=f"{window}:{instance}",
                before=_encoded(before),
                record=_encoded(sealed),
                trimmed=[f"{window}:{each}" for each in trimmed],
                floors={window: max(trimmed)} if trimmed else {},
                **more,
            )
        )

    async def record_expiry(self, board: Opened, window: str, instance: int) -> None:
        """Record that the keys of a sealed period expire."""
        await self._operate("record_expiry", board, name=f"{window}:{instance}")

    async def set_stale(self, board: Opened, now_ms: int) -> None:
        """Mark all scopes as stale: advancing them drops the rankings that are no longer kept."""
        if board.rules.scoped:
            await self._operate("set_stale", board, now=now_ms)

    async def record_note(self, board: Opened, number: int, recorded: Block) -> bool:
        """Add a block to the changes of a board: what the note `number` of its ledger says. Return
        False if this was already done for this note, or for one with a greater number."""
        more = self._recording(board, recorded)
        count = recorded.count
        return bool(await self._operate("record_note", board, number=number, count=count, **more))

    async def restore_closings(
        self,
        board: Opened,
        sealed: Mapping[tuple[str, int], SealedPeriod],
        recorded: Mapping[str, int],
        trimmed: Mapping[str, int],
    ) -> None:
        """Write the records of the sealed periods of a copied board, by window and instance. By
        window, `recorded` has the instance up to which all periods are closed, and `trimmed` the
        newest instance that has left the archive. A second call has no effect."""
        names = sorted(sealed)
        for first in range(0, max(1, len(names)), _RESTORED):
            records = [
                text
                for window, instance in names[first : first + _RESTORED]
                for text in (f"{window}:{instance}", _encoded(sealed[window, instance]))
            ]
            floors = {"floors": dict(recorded), "trimmed": dict(trimmed)}
            await self._operate(
                "restore_closings", board, first=not first, records=records, **floors
            )

    async def take_lease(self, board: Opened, token: str, ms: int) -> bool:
        """Take or renew the lease to seal periods of a board for some milliseconds, or end it if
        `ms` is 0. Return False if another process has it."""
        return bool(await self._operate("take_lease", board, token=token, ms=ms))


def _encoded(record: ClosedPeriod | SealedPeriod) -> str:
    kind = _CLOSED if isinstance(record, ClosedPeriod) else _SEALED
    return kind + msgspec.json.encode(record).decode()


def _decoded(text: str) -> ClosedPeriod | SealedPeriod:
    body = text[1:]
    return _closed.decode(body) if text[0] == _CLOSED else _sealed.decode(body)


def _period(name: str) -> tuple[str, int]:
    window, _, instance = name.rpartition(":")
    return window, int(instance)


def _by_window(windows: Sequence[str], values: Iterable[str | bool | None]) -> dict[str, int]:
    """Return the stored instances by window, without the windows that have none."""
    pairs = zip(windows, values, strict=True)
    return {window: int(value) for window, value in pairs if value}
