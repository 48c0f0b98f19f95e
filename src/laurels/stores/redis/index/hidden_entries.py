"""Lets a shard keep the entries of its hidden members in order, for the calls that leave these
members out; see `lua/hidden_entries.lua`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from laurels.core.hidden import Exclusion
from laurels.errors import LaurelsError
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.outdated import HiddenNotReady
from laurels.stores.redis.registry import ENTRIES_FORMAT
from laurels.stores.redis.remote import Opened
from laurels.timeline.clock import Clock

from .calls import ShardCalls
from .definitions import RedisDefinitions

_PART = 5_000
"""The maximum number of hidden members that one call sends."""
_ATTEMPTS = 5
"""After so many refusals, which happen if other processes know other hidden members, a call sends
the hidden members itself."""

T = TypeVar("T")


class HiddenEntries(ShardCalls):
    """The calls of the index by which a shard keeps the entries of hidden members."""

    def __init__(
        self,
        connection: Connection,
        prefix: str,
        clock: Clock | None = None,
        *,
        expires: bool = False,
    ) -> None:
        super().__init__(connection, prefix, clock, expires=expires)
        self._definitions = RedisDefinitions(connection, prefix)

    async def without_hidden(
        self,
        board: Opened,
        hidden: Sequence[Exclusion],
        call: Callable[[Sequence[Any], dict[str, Any]], Awaitable[T]],
    ) -> T:
        """Make a call that leaves out hidden members. `call` gets an encoding of each exclusion and
        further arguments of the script. The current hidden members are not sent, since the shard
        keeps their entries. If it refuses the call, as it does not keep them for a ranking yet, let
        it keep them, and repeat the call."""
        current = next((each for each in hidden if is_current(board, each)), None)
        if current is None:
            return await call([each.texts for each in hidden], {})
        encoded = [each is current or each.texts for each in hidden]
        more = {"listed": board.hidden, "small": self.small_ranking}
        for _ in range(_ATTEMPTS):
            try:
                return await call(encoded, more)
            except HiddenNotReady as error:
                names = error.names
            try:
                await self._keep(board, current, names)
            except LaurelsError:  # the server may have no memory left, and can still be read
                break
        return await call([each.texts for each in hidden], {})

    async def _keep(self, board: Opened, hidden: Exclusion, names: Sequence[str]) -> None:
        """Let a shard keep the entries of hidden members for some rankings."""
        await self._definitions.require_format(ENTRIES_FORMAT)
        done = 0
        change = _change(hidden)
        while done < len(names):
            arguments: dict[str, Any] = {"version": hidden.stored_text, "names": names[done:]}
            if change is not None:
                arguments["change"] = change
            is_listed, more = await self._operate("list_hidden", board, **arguments)
            done += more
            if not is_listed:
                change = None
                await self._send(board, hidden)

    async def _send(self, board: Opened, hidden: Exclusion) -> None:
        """Send all hidden members of a shard, in parts. If the first parts have expired before the
        last one is sent, the shard does not use them."""
        texts = hidden.texts
        for first in range(0, len(texts), _PART):
            part = texts[first : first + _PART]
            arguments = {"version": hidden.stored_text, "part": [part, len(texts)], "names": []}
            await self._operate("list_hidden", board, **arguments)


def is_current(board: Opened, hidden: Exclusion) -> bool:
    """Return whether an exclusion has the current hidden members of a board."""
    return bool(board.hidden) and hidden.stored_text == board.hidden


def _change(hidden: Exclusion) -> list[Any] | None:
    """Encode the difference of an exclusion to an earlier one; None if there is no earlier one."""
    before = hidden.before
    if before is None:
        return None
    added, removed = hidden.members - before.members, before.members - hidden.members
    return [before.stored_text, *([m.decode() for m in each] for each in (added, removed))]
