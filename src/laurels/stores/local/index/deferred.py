"""The refreshed windows of the memory index.

Each scope has a deferred `RollingSet`. The next ranking of a window is built scope by scope, in
shares. In a new scope, the build starts with the first event.

**A refresh.** When the build is complete in all scopes, the shown ranking and the built ranking
swap roles in every scope. There may be a million scopes, so the refresh itself only increments a
counter (`BoardStore.refreshes`). A scope swaps its rankings later: it *follows* the refresh when it
is read or written, or when the fold advances it (`Fold.advance_scopes`). Until then nothing changes
the scope, so its built ranking still is the result of the refresh. If a build is not complete (in
recovery, or for a small ranking), the refresh builds the rest at once.
"""

from laurels.engine.rolling.rolling import RollingSet
from laurels.model.labels import ALL

from .board_store import BoardStore, ScopeStore
from .copying import Copying
from .tracking import TrackedWrites

SCOPE_CELLS = 10
"""The fixed cost of building a scope, as a number of cells."""
_ALL = 2**62


class Deferred:
    """The operations of the memory index on refreshed windows."""

    def __init__(self) -> None:
        self._boards: dict[int, BoardStore] = {}
        self._dropped: list[object] = []
        self._copying: Copying | None = None
        self._ended: Copying | None = None
        self._tracked: dict[int, TrackedWrites] = {}

    def begin_build(self, board: int, window: str) -> None:
        self._boards[board].building.setdefault(window, set())

    def build(self, board: int, window: str, limit: int, scope: str = "") -> int:
        rolling = self._deferred(board, window, scope)
        if rolling is not None:
            rolling.build(limit)
            self._boards[board].schedule(window, scope)
        return self.build_left(board, window, scope)

    def build_left(self, board: int, window: str, scope: str = "") -> int:
        rolling = self._deferred(board, window, scope)
        return 0 if rolling is None or rolling.built else max(1, rolling.build_remaining)

    def refresh_cost(self, board: int, window: str, most: int) -> int:
        cost = 0
        for part in self._boards[board].parts.values():
            if (rolling := part.rolling.get(window)) is not None:
                cost += SCOPE_CELLS + rolling.cells
            if cost > most:
                break
        return cost

    def refresh(self, board: int, window: str) -> bool:
        store = self._boards[board]
        store.building.pop(window, None)
        has_members = False
        for scope in list(store.parts):
            part = self._followed(board, scope)
            if part is None or (rolling := part.rolling.get(window)) is None:
                continue
            rolling.build(_ALL)
            self._change_places(board, scope, rolling)
            has_members = has_members or len(rolling.live) > 0
            store.drop_empty(scope)
        return has_members

    def switch_to_built(self, board: int, window: str) -> bool:
        store = self._boards[board]
        listed = store.building.pop(window)
        self._dropped.append(listed)
        store.refreshes += 1
        store.refreshed[window] = store.refreshes
        if self._copying is not None:
            self._copying.list_again(board)
        self._followed(board, ALL)
        return bool(listed)

    def _followed(self, board: int, scope: str) -> ScopeStore | None:
        """Return the data of a scope, after the scope has followed the latest refreshes. Return
        None if the scope does not exist or has become empty."""
        store = self._boards[board]
        part = store.parts.get(scope)
        if part is None or part.refreshes == store.refreshes:
            return part
        for rolling in store.stale_windows(part):
            self._change_places(board, scope, rolling)
        part.refreshes = store.refreshes
        store.drop_empty(scope)
        return store.parts.get(scope)

    def _change_places(self, board: int, scope: str, rolling: RollingSet) -> None:
        """Swap the shown and the built ranking of a window in a scope."""
        self._dropped.append(rolling.refresh())
        if self._copying is not None:
            self._copying.copy_again(rolling.live)
            self._copying.touch(board, scope)

    def _deferred(self, board: int, window: str, scope: str) -> RollingSet | None:
        part = self._followed(board, scope)
        return None if part is None else part.rolling.get(window)
