"""A log in memory, for tests, notebooks and temporary boards."""

from collections.abc import Iterator

from laurels.errors import LogDamaged


class MemoryLog:
    """Implementation of `Log` in a list. The list grows with every entry and is lost when the
    process ends."""

    def __init__(self) -> None:
        self._entries: list[bytes] = []
        self._trimmed = 0
        self._notes: dict[str, str] = {}

    @property
    def offset(self) -> int:
        return self._trimmed + len(self._entries)

    @property
    def first(self) -> int:
        return self._trimmed + 1

    @property
    def doubt(self) -> None:
        return None

    def append(self, body: bytes) -> int:
        self._entries.append(body)
        return self._trimmed + len(self._entries)

    def read(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        if after < self._trimmed:
            raise LogDamaged(
                f"expected a read from offset {self._trimmed} on, since the log is trimmed, got "
                f"{after}"
            )
        for offset in range(after + 1, self.offset + 1):
            yield offset, self._entries[offset - self._trimmed - 1]

    def trim(self, until: int) -> bool:
        count = max(0, min(until, self.offset - 1) - self._trimmed)
        del self._entries[:count]
        self._trimmed += count
        return False

    def note(self, key: str) -> str | None:
        return self._notes.get(key)

    def set_note(self, key: str, value: str) -> None:
        self._notes[key] = value

    def nbytes(self) -> int:
        return sum(map(len, self._entries))

    def close(self) -> None:
        self._entries.clear()
