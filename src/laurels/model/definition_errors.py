"""Collects errors, so that an invalid definition is refused with all its errors at once."""

from collections.abc import Callable
from typing import TypeVar

from laurels.errors import BoardInvalid, InvalidName, LaurelsError

T = TypeVar("T")
F = TypeVar("F")


class DefinitionErrors:
    """The errors found so far, each prefixed with `subject`."""

    def __init__(self, subject: str = "") -> None:
        self._prefix = f"{subject}: " if subject else ""
        self._errors: list[str] = []
        self._only_names = True

    def add(self, error: str) -> None:
        """Add the message of an error that is not about a name."""
        self._only_names = False
        self._errors.append(self._prefix + error)

    def add_error(self, error: LaurelsError) -> None:
        """Add the message, or all the messages, of an exception."""
        errors = error.errors if isinstance(error, BoardInvalid) else [error.what]
        self._only_names &= isinstance(error, InvalidName)
        self._errors += [self._prefix + each for each in errors]

    def read(self, parse: Callable[[object], T], value: object, fallback: F) -> T | F:
        """Return `parse(value)`.

        If parsing raises an error, add the error and return `fallback`.
        """
        try:
            return parse(value)
        except LaurelsError as error:
            self.add_error(error)
            return fallback

    def raise_any(self) -> None:
        """Raise the errors found: InvalidName if only names are wrong, otherwise BoardInvalid."""
        if self._errors:
            raise (InvalidName if self._only_names else BoardInvalid)(*self._errors)
