"""Definitions of scopes: the tuples of labels a board ranks by."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from laurels.errors import BoardInvalid

from .definition_errors import DefinitionErrors
from .validation import is_name, safe_repr

MAX_SCOPES = 8
MAX_PLACES = 64
"""Rankings in which one event may be counted: windows by scopes."""

T = TypeVar("T")


def judged_scopes(value: object) -> tuple[tuple[str, ...], ...]:
    """Return the scopes of a board in canonical form; BoardInvalid with every fault they have."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise BoardInvalid(f"scopes is {safe_repr(value)}, not a list of lists of labels")
    if not 1 <= len(value) <= MAX_SCOPES:
        raise BoardInvalid(f"there are {len(value)} scopes, not 1 to {MAX_SCOPES}")
    errors = DefinitionErrors()
    scopes = [errors.read(_scope, scope, None) for scope in value]
    for scope in _twice(scopes):
        errors.add(f"the scope {list(scope)} is there twice")
    errors.raise_any()
    return tuple([scope for scope in scopes if scope is not None])


def judged_rank_by(value: object) -> tuple[str, ...]:
    """Return the labels whose values a board ranks; BoardInvalid with every fault they have."""
    labels = [value] if isinstance(value, str) else value
    if not isinstance(labels, Sequence) or isinstance(labels, bytes):
        raise BoardInvalid(f"rank_by is {safe_repr(value)}, not a label or a list of labels")
    if len(labels) > MAX_SCOPES:
        raise BoardInvalid(f"rank_by has {len(labels)} labels, not up to {MAX_SCOPES}")
    errors = DefinitionErrors()
    found = [errors.read(_label, label, "") for label in labels]
    for label in _twice(found):
        errors.add(f"rank_by names {label} twice")
    errors.raise_any()
    return tuple(found)


def place_errors(windows: int, scopes: int, rank_by: int) -> Iterator[str]:
    """Yield what is wrong with this number of windows and scopes."""
    if (places := windows * (scopes + rank_by)) > MAX_PLACES:
        yield (
            f"{windows} windows by {scopes} scopes and {rank_by} labels ranked by are {places} "
            f"rankings an event, not up to {MAX_PLACES}"
        )


def _scope(value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise BoardInvalid(f"the scope {safe_repr(value)} is no list of labels")
    labels = sorted(map(_label, value))
    if next(_twice(labels), None) is not None:
        raise BoardInvalid(f"the scope {safe_repr(list(value))} has a label twice")
    return tuple(labels)


def _label(value: object) -> str:
    if not is_name(value) or not value.isidentifier():
        raise BoardInvalid(f"{safe_repr(value)} is no name for a label")
    return value


def _twice(items: Iterable[T | None]) -> Iterator[T]:
    """Return those that were there before."""
    seen: set[T] = set()
    for item in items:
        if item is None:
            continue
        if item in seen:
            yield item
        seen.add(item)
