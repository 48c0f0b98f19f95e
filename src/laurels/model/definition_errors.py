"""Collecting faults, so that a wrong definition is refused with every one of them at once."""

from collections.abc import Callable
from typing import TypeVar

from laurels.errors import BoardInvalid, InvalidName, LaurelsError

T = TypeVar("T")
F = TypeVar("F")


class DefinitionErrors:
    """The faults found so far, each said of `subject`."""

    def __init__(self, subject: str = "") -> None:
        self._prefix = f"{subject}: " if subject else ""
        self._found: list[str] = []
        self._only_names = True

    def add(self, error: str) -> None:
        """Note a fault."""
        self._only_names = False
        self._found.append(self._prefix + error)

    def add_error(self, error: LaurelsError) -> None:
        """Note the fault, or all the faults, that an error tells of."""
        errors = error.faults if isinstance(error, BoardInvalid) else [error.what]
        self._only_names &= isinstance(error, InvalidName)
        self._found += [self._prefix + each for each in errors]

    def read(self, parse: Callable[[object], T], value: object, fallback: F) -> T | F:
        """What `parse` makes of a value; where it refuses, notes why and answers `fallback`."""
        try:
            return parse(value)
        except LaurelsError as error:
            self.add_error(error)
            return fallback

    @property
    def found(self) -> bool:
        """Whether there are any so far."""
        return bool(self._found)

    def raise_any(self) -> None:
        """Raise what was found: InvalidName where only names are wrong, else BoardInvalid."""
        if self._found:
            raise (InvalidName if self._only_names else BoardInvalid)(*self._found)
