"""Definitions of scopes: the tuples of labels by which a board ranks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from laurels.errors import BoardInvalid

from .definition_errors import DefinitionErrors
from .validation import is_name, safe_repr

MAX_SCOPES = 8
MAX_RANKINGS = 64
"""The maximum number of rankings in which one event may be counted: windows times scopes."""

T = TypeVar("T")


def canonical_scopes(value: object) -> tuple[tuple[str, ...], ...]:
    """Return the scopes of a board in canonical form. Raise BoardInvalid with every fault."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise BoardInvalid(f"expected a list of lists of labels for scopes, got {safe_repr(value)}")
    if not 1 <= len(value) <= MAX_SCOPES:
        raise BoardInvalid(f"expected 1 to {MAX_SCOPES} scopes, got {len(value)}")
    errors = DefinitionErrors()
    scopes = [errors.read(_scope, scope, None) for scope in value]
    for scope in _twice(scopes):
        errors.add(f"expected distinct scopes, got {list(scope)} twice")
    errors.raise_any()
    return tuple([scope for scope in scopes if scope is not None])


def canonical_rank_by(value: object) -> tuple[str, ...]:
    """Return the labels whose values a board ranks. Raise BoardInvalid with every fault."""
    labels = [value] if isinstance(value, str) else value
    if not isinstance(labels, Sequence) or isinstance(labels, bytes):
        raise BoardInvalid(
            f"expected a label or a list of labels for rank_by, got {safe_repr(value)}"
        )
    if len(labels) > MAX_SCOPES:
        raise BoardInvalid(f"expected at most {MAX_SCOPES} labels in rank_by, got {len(labels)}")
    errors = DefinitionErrors()
    names = [errors.read(_label, label, "") for label in labels]
    for label in _twice(names):
        errors.add(f"expected distinct labels in rank_by, got {label} twice")
    errors.raise_any()
    return tuple(names)


def ranking_errors(windows: int, scopes: int, rank_by: int) -> Iterator[str]:
    """Yield an error if these numbers of windows, scopes and labels in `rank_by` make too many
    rankings."""
    if (rankings := windows * (scopes + rank_by)) > MAX_RANKINGS:
        yield (
            f"expected at most {MAX_RANKINGS} rankings for each event, got {rankings}: "
            f"{windows} windows times {scopes} scopes and {rank_by} labels in rank_by"
        )


def _scope(value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise BoardInvalid(f"expected a list of labels as a scope, got {safe_repr(value)}")
    labels = sorted(map(_label, value))
    if next(_twice(labels), None) is not None:
        raise BoardInvalid(f"expected distinct labels in a scope, got {safe_repr(list(value))}")
    return tuple(labels)


def _label(value: object) -> str:
    if not is_name(value) or not value.isidentifier():
        raise BoardInvalid(f"expected a name for a label, got {safe_repr(value)}")
    return value


def _twice(items: Iterable[T | None]) -> Iterator[T]:
    """Yield the items that have occurred before."""
    seen: set[T] = set()
    for item in items:
        if item is None:
            continue
        if item in seen:
            yield item
        seen.add(item)
