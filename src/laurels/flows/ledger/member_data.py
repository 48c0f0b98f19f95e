"""Compare the data of members in a ledger and in its store, and mend one with the other.

The members in the ledger are looked up in the store, and the members that the store lists are
looked up in the ledger. The store lists members of rankings only, so the data of other members is
compared only if it is in the ledger.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.beginning import is_last
from laurels.errors import DataMoved, LaurelsError
from laurels.model.board import Board
from laurels.sql.dialects import Dialect
from laurels.sql.texts import is_member
from laurels.stores.intake.accept import data_bytes

from .locked import LockedRows
from .reading import LedgerReader
from .rounds import AT_ONCE, Sleep, changed_since, in_rounds

PAGE = 10_000


class DataDifference(Struct, frozen=True):
    """A member whose data differs; `ledger` or `store` is None if that side has no data."""

    member: str
    ledger: str | None
    store: str | None


class DataReconciler:
    """Compares the data of a board's members with its ledger."""

    def __init__(
        self,
        lb: AsyncLeaderboards,
        dialect: Dialect,
        prefix: str,
        definition: Board,
        rows: LockedRows,
    ) -> None:
        self._lb = lb
        self._dialect = dialect
        self._prefix = prefix
        self._board = definition.name
        self._rows = rows
        rules = definition.rules()
        spec = rules.specs[rules.recorded[0]] if rules.recorded else rules.specs[0]
        self._window = spec.window
        self._labels = dict.fromkeys(spec.labels, "-")
        self.compared = 0
        """The number of members with data in the ledger."""
        self.differing: dict[str, DataDifference] = {}
        self.mended: set[str] = set()

    async def run(self, mend: str | None, sleep: Sleep) -> list[str]:
        """Compare the data, and mend the side that `mend` names, if any. Return the members that
        could not be checked."""
        candidates: dict[str, None] = {}
        async for members in self._candidates():
            candidates |= dict.fromkeys(members)
        return await in_rounds(list(candidates), lambda group: self._check(group, mend), sleep)

    async def _candidates(self) -> AsyncIterator[list[str]]:
        """Yield members whose data seems to differ."""
        reader = LedgerReader(self._dialect, self._prefix)
        await asyncio.to_thread(reader.open)
        try:
            pages = reader.data(self._board)
            while (page := await asyncio.to_thread(next, pages, None)) is not None:
                self.compared += len(page)
                for first in range(0, len(page), AT_ONCE):
                    rows = dict(page[first : first + AT_ONCE])
                    store = await self._store_data(list(rows))
                    yield [member for member in rows if rows[member] != store.get(member)]
        finally:
            await asyncio.to_thread(reader.close)
        async for listed in self._listed():
            yield listed

    async def _listed(self) -> AsyncIterator[list[str]]:
        """Yield, in groups, the members listed by the store whose data in the store differs from
        that in the ledger."""
        page = await self._lb.changes(self._board, limit=PAGE, initial=True)
        while True:
            texts = {
                str(change.member): json_text(change.data)
                for change in page.changes
                if change.kind == "initial" and change.data is not None
            }
            members = list(texts)
            for first in range(0, len(members), AT_ONCE):
                group = members[first : first + AT_ONCE]
                await asyncio.to_thread(self._rows.open)
                rows = await asyncio.to_thread(self._rows.data, group)
                await asyncio.to_thread(self._rows.unlock)
                yield [member for member in group if rows.get(member) != texts[member]]
            if is_last(page):
                return
            page = await self._lb.changes(self._board, after=page.cursor, limit=PAGE)

    async def _check(self, members: Sequence[str], mend: str | None) -> list[str]:
        """Check members again, and mend the differences; return the members that have to be checked
        once more."""
        try:
            position = await asyncio.to_thread(self._rows.lock)
            ledger = await asyncio.to_thread(self._rows.data, members)
            store = await self._store_data(members)
            changed = await changed_since(self._lb, self._board, position)
            settled = [member for member in members if member not in changed.members]
            differing = [each for each in settled if ledger.get(each) != store.get(each)]
            for member in settled:
                if member not in self.mended:
                    self.differing.pop(member, None)
            for member in differing:
                self.differing[member] = DataDifference(
                    member, ledger.get(member), store.get(member)
                )
            if mend == "ledger" and differing:
                data = {member: store.get(member) for member in differing}
                await asyncio.to_thread(self._rows.write_data, data, position.generation)
                self.mended.update(differing)
        finally:
            await asyncio.to_thread(self._rows.unlock)
        undecided = [member for member in members if member in changed.members]
        if mend == "store":
            # All at once, so that the store can join the writes into few commits.
            mends = (
                self._mend_store(each, ledger.get(each), store.get(each)) for each in differing
            )
            outcomes = await asyncio.gather(*mends, return_exceptions=True)
            for member, outcome in zip(differing, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                if not outcome:
                    undecided.append(member)
        return undecided

    async def _mend_store(self, member: str, wanted: str | None, before: str | None) -> bool:
        """Set the data of a member in the store to the data in the ledger, unless the store's data
        has changed since the comparison; return False if the member has to be checked again."""
        try:
            await self._lb.set_data(self._board, member, _decode(wanted), before=_decode(before))
        except DataMoved:
            return False
        except (LaurelsError, msgspec.DecodeError) as error:
            if isinstance(error, LaurelsError) and error.status not in (400, 413):
                raise
            return True  # no member can have this data, so the difference remains
        self.mended.add(member)
        return True

    async def _store_data(self, members: Sequence[str]) -> dict[str, str]:
        """Return the data of members in the store, as JSON."""
        possible = [member for member in members if is_member(member)]
        entries = await self._lb.entries(
            self._board, possible, window=self._window, labels=self._labels, with_data=True
        )
        return {each.member: json_text(each.data) for each in entries if each.data is not None}


def json_text(data: Any) -> str:
    """Return data as JSON, in the form of the ledger."""
    return (data_bytes(data) or b"").decode()


def _decode(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
