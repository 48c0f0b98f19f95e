"""The event ids that a board remembers, so that each event counts once.

There are two structures. One is a dict from (member, id) to the time of acceptance. The other is a
queue of the same keys, grouped by these times and in their order, so that forgetting is O(1) for
each id. The dict and the queue always have the same keys. While a copy is made (`follow`), added
ids are also collected for the copy.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from operator import itemgetter

from laurels.errors import CheckFailed


def key_of(member: bytes, id: bytes) -> bytes:
    """Return an unambiguous key for a member's event id."""
    return b"%c%b%b" % (len(member), member, id)


class Remembered:
    """Event ids with their times of acceptance. The times of successive calls of `add` must not
    decrease; the times passed to `restore` may."""

    def __init__(self) -> None:
        self._accepted: dict[bytes, int] = {}
        self._queue: deque[tuple[int, list[bytes]]] = deque()
        self._added: list[tuple[int, list[bytes]]] | None = None
        self._is_sorted = True

    def __len__(self) -> int:
        return len(self._accepted)

    def __contains__(self, key: bytes) -> bool:
        return key in self._accepted

    def add(self, key: bytes, now_ms: int) -> None:
        self._accepted[key] = now_ms
        if self._added is not None:
            if self._added and self._added[-1][0] == now_ms:
                self._added[-1][1].append(key)
            else:
                self._added.append((now_ms, [key]))
        if self._queue and self._queue[-1][0] == now_ms:
            self._queue[-1][1].append(key)
        else:
            self._queue.append((now_ms, [key]))

    def restore(self, key: bytes, accepted_ms: int) -> None:
        """Add an id of a copied board, unless it has been added with this time or a later one. The
        ids are sorted again before they are next read."""
        before = self._accepted.get(key)
        if before is not None and before >= accepted_ms:
            return
        if before is not None or (self._queue and self._queue[-1][0] > accepted_ms):
            self._is_sorted = False
        self.add(key, accepted_ms)

    def _sort(self) -> None:
        """Sort the table and the queue by time, unless they are sorted already."""
        if self._is_sorted:
            return
        self._accepted = dict(sorted(self._accepted.items(), key=itemgetter(1)))
        groups: dict[int, list[bytes]] = {}
        for key, accepted_ms in self._accepted.items():
            groups.setdefault(accepted_ms, []).append(key)
        self._queue = deque(groups.items())
        self._is_sorted = True

    def undo(self, keys: list[bytes]) -> None:
        """Undo the newest calls of `add`, which have added `keys` in this order."""
        for key in reversed(keys):
            del self._accepted[key]
            if self._added is not None:
                self._added[-1][1].pop()
                if not self._added[-1][1]:
                    self._added.pop()
            newest = self._queue[-1][1]
            newest.pop()
            if not newest:
                self._queue.pop()

    def keys_of(self, member: bytes, place: int, limit: int) -> tuple[list[bytes], int | None]:
        """Search about `limit` ids for those of a member, beginning with the group with the index
        `place`. Return the keys that were found, and the index of the next group; None at the
        end."""
        self._sort()
        prefix = key_of(member, b"")
        found: list[bytes] = []
        for at, (_, keys) in enumerate(islice(self._queue, place, None), place):
            if limit <= 0:
                return found, at
            found += [key for key in keys if key.startswith(prefix)]
            limit -= len(keys)
        return found, None

    def forget(self, keys: Iterable[bytes]) -> None:
        """Forget ids by their keys. No copy may be in progress."""
        gone = {key: self._accepted.pop(key) for key in keys if key in self._accepted}
        times = {*gone.values()}
        for accepted_ms, group in self._queue if times else ():
            if accepted_ms in times:
                group[:] = [key for key in group if key not in gone]
        if times:
            self._queue = deque([group for group in self._queue if group[1]])

    def forget_until(self, instant_ms: int) -> None:
        """Forget the ids accepted at or before an instant."""
        self._sort()
        while self._queue and self._queue[0][0] <= instant_ms:
            for key in self._queue.popleft()[1]:
                del self._accepted[key]

    def count_after(self, instant_ms: int) -> int:
        """Return how many ids were accepted after an instant. O(times of acceptance up to that
        instant)."""
        self._sort()
        count = len(self._accepted)
        for accepted_ms, keys in self._queue:
            if accepted_ms > instant_ms:
                break
            count -= len(keys)
        return count

    @property
    def oldest_ms(self) -> int | None:
        """The time at which the oldest id was accepted; None if there are no ids."""
        self._sort()
        return self._queue[0][0] if self._queue else None

    def between(self, from_ms: int, until_ms: int) -> list[tuple[int, list[bytes]]]:
        """Return the ids accepted from `from_ms` until before `until_ms`, in groups by time of
        acceptance. O(times of acceptance from `from_ms` on)."""
        self._sort()
        groups = []
        for accepted_ms, keys in reversed(self._queue):
            if accepted_ms < from_ms:
                break
            if accepted_ms < until_ms:
                groups.append((accepted_ms, list(keys)))
        return groups[::-1]

    def follow(self) -> list[tuple[int, list[bytes]]]:
        """Return all ids in groups by time of acceptance, for a copy. From now on, collect added
        ids for `take_added`."""
        self._sort()
        self._added = []
        groups = list(self._queue)
        if groups:
            accepted_ms, keys = groups[-1]
            groups[-1] = (accepted_ms, list(keys))
        return groups

    def take_added(self) -> list[tuple[int, list[bytes]]]:
        """Return the ids added since the copy was begun, or since the last call."""
        added = self._added or []
        if self._added is not None:
            self._added = []
        return added

    def unfollow(self) -> None:
        """Stop collecting added ids."""
        self._added = None

    def items(self) -> list[tuple[bytes, int]]:
        self._sort()
        return list(self._accepted.items())

    def check(self) -> None:
        self._sort()
        queued = [(key, now_ms) for now_ms, keys in self._queue for key in keys]
        if queued != self.items():
            raise CheckFailed("remembered ids: the queue and the table differ")
        if any(a[0] >= b[0] for a, b in zip(self._queue, list(self._queue)[1:], strict=False)):
            raise CheckFailed("remembered ids: the queue is not in the order of time")
