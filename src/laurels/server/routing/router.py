"""A lookup table from paths to handlers; one part of a path may vary."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
_VARIES = "{}"


class RouteMatch(NamedTuple, Generic[T]):
    """The handlers of a path by method, and the variable part of the path, if it has one."""

    methods: Mapping[str, T]
    part: str


class Router(Generic[T]):
    """The handlers by path. The paths are written as in the route table: `/v1/boards/{board}/top`.
    Lookup is O(1)."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, ...], dict[str, T]] = {}
        self._places: dict[int, set[int]] = {}

    def put(self, method: str, path: str, answers: T) -> None:
        """Add the handler of a method and a path. At most one part of the path may be in braces."""
        parts = path.split("/")
        for place, part in enumerate(parts):
            if part.startswith("{"):
                parts[place] = _VARIES
                self._places.setdefault(len(parts), set()).add(place)
        self._rows.setdefault(tuple(parts), {})[method] = answers

    def find(self, path: str) -> RouteMatch[T] | None:
        """Return the handlers of a path, or None if the path is unknown."""
        parts = tuple(path.split("/"))
        for place in self._places.get(len(parts), ()):
            part = parts[place]
            if part and (row := self._rows.get((*parts[:place], _VARIES, *parts[place + 1 :]))):
                return RouteMatch(row, part)
        if _VARIES not in parts and (row := self._rows.get(parts)):
            return RouteMatch(row, "")
        return None
