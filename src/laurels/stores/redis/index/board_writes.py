"""The writes to a board that are not events: removing members, replacing entries, and setting
member data and the positions of sources."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from laurels.core.changes.blocks import Block, WriteBlock
from laurels.core.changes.record_blocks import mend_block
from laurels.core.lifecycle import Due
from laurels.core.record import MendRanking
from laurels.stores.redis.outdated import DefinitionOutdated
from laurels.stores.redis.remote import Opened, PositionWrite

from .batches import encode_positions
from .calls import BEGIN, END
from .changes import encode_write_changes
from .coding import encode_due, encode_mend
from .upkeep import Upkeep


class BoardWrites(Upkeep):
    """The calls of the index for writes other than events. They are recorded if the board keeps
    changes."""

    async def remove(
        self,
        board: Opened,
        member: bytes,
        due: Due,
        recorded: WriteBlock | None = None,
        *,
        archived: Mapping[str, int] | None = None,
        forced: bool = False,
    ) -> bool:
        """Remove a member from every ranking except those by a label, and remove its data. The
        rankings in scopes come first, those of all events last. Return True if the member was in
        any ranking, or if `forced` is true."""
        removed, cursor = int(forced), BEGIN if board.rules.scoped else END
        of_archive = {} if archived is None else {"archived": dict(archived)}
        arguments = {**encode_due(due), "member": member.decode(), "limit": self.share}
        arguments |= of_archive
        while cursor != END:
            more, cursor = await self._operate(
                "remove_from_scopes", board, cursor=cursor, **arguments
            )
            removed += more
        more = self._recording(board, recorded) | of_archive
        in_all = await self._operate(
            "remove_member", board, member=member.decode(), removed=removed, **more
        )
        return bool(in_all + removed)

    async def mend(self, board: Opened, record: MendRanking, due: Due) -> int:
        """Replace entries of a ranking; return how many were replaced."""
        if record.scope:
            while not await self.advance_scopes(board, [record.scope], due, self.share, full=True):
                pass
        more = self._recording(board, mend_block(record))
        done = await self._operate("mend", board, **encode_mend(record), **(encode_due(due) | more))
        return sum(map(int, done))

    async def set_data(
        self,
        board: Opened,
        member: bytes,
        data: bytes | None,
        recorded: WriteBlock | None = None,
        before: bytes | UnsetType | None = UNSET,
    ) -> None:
        text = False if data is None else data.decode()
        more = self._recording(board, recorded)
        if before is not UNSET:
            more |= {"follows": [False if before is None else before.decode()]}
        await self._operate("set_data", board, member=member.decode(), text=text, **more)

    async def set_position(
        self, board: Opened, write: PositionWrite, recorded: WriteBlock | None = None
    ) -> None:
        more = self._recording(board, recorded)
        await self._operate("set_position", board, **encode_positions(write), **more)

    async def confirm(self, board: Opened, sink: str, confirmed: Sequence[int] | None) -> None:
        """Store which blocks of changes a registered sink has confirmed: for each shard the
        sequence number of the newest one. None means that the sink is no longer registered."""
        sequence = None if confirmed is None else confirmed[board.shard]
        await self._operate(
            "confirm", board, sink=sink, sequence=False if sequence is None else sequence
        )

    async def changes_lost(self, board: Opened) -> int:
        """Return how many changes were removed before a registered sink had confirmed them."""
        return int(await self._command(board, b"HGET", b"m", b"hlost") or 0)

    async def ensure_current(self, board: Opened) -> None:
        """Raise DefinitionOutdated unless the board exists with this version of its definition.
        Call it after reads that do not check the version themselves."""
        stored = await self._command(board, b"HGET", b"m", b"ver")
        if stored is None or bytes(stored).decode() != board.version_text:
            raise DefinitionOutdated

    async def position(self, board: Opened, source: str) -> str | None:
        position = await self._command(board, b"HGET", b"p", source.encode())
        return None if position is None else bytes(position).decode()

    async def positions(self, board: Opened) -> dict[str, str]:
        """Return the positions of all sources."""
        positions = await self._command(board, b"HGETALL", b"p")
        return {bytes(source).decode(): bytes(text).decode() for source, text in positions.items()}

    def _recording(self, board: Opened, recorded: Block | None) -> dict[str, Any]:
        """Return the arguments by which a script records a write, if the board keeps changes."""
        if recorded is None or not board.rules.changes_ms:
            return {}
        changes = encode_write_changes(board, recorded, expires=self._expires)
        return {"changes": changes, "time": recorded.now_ms}
