"""From a path to what answers it: a table of paths, some with one part that varies."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
_VARIES = "{}"


class RouteMatch(NamedTuple, Generic[T]):
    """What stands at a path, by method, and the part of it that varies, if one does."""

    methods: Mapping[str, T]
    part: str


class Router(Generic[T]):
    """Paths as they are written in the table: `/v1/boards/{board}/top`. O(1)."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, ...], dict[str, T]] = {}
        self._places: dict[int, set[int]] = {}

    def put(self, method: str, path: str, answers: T) -> None:
        """Have a method of a path answered; at most one part of it is in braces."""
        parts = path.split("/")
        for place, part in enumerate(parts):
            if part.startswith("{"):
                parts[place] = _VARIES
                self._places.setdefault(len(parts), set()).add(place)
        self._rows.setdefault(tuple(parts), {})[method] = answers

    def find(self, path: str) -> RouteMatch[T] | None:
        """What stands at a path; None where nothing does."""
        parts = tuple(path.split("/"))
        for place in self._places.get(len(parts), ()):
            part = parts[place]
            if part and (row := self._rows.get((*parts[:place], _VARIES, *parts[place + 1 :]))):
                return RouteMatch(row, part)
        if _VARIES not in parts and (row := self._rows.get(parts)):
            return RouteMatch(row, "")
        return None
