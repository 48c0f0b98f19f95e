"""Labels, which an event may carry besides its member and value; and scopes, the events with the
same labels. Pure.

A board defines its scopes by label names. With `scopes = [[], ["zone"], ["zone", "gender"]]`, an
event with zone=cn and gender=f is counted in three rankings of each window: of all events, of
zone=cn, and of gender=f,zone=cn. The text of a scope has its labels sorted by name. Characters in
values that would separate parts of the text are quoted, so no two scopes have the same text. A
ranking *by* a label, whose members are the values of that label, is a scope as well: `@room`.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from urllib.parse import quote, unquote

from msgspec import Struct

from laurels.errors import InvalidLabel, UnknownLabel, UnknownScope

from .rules import RankingSpec, Rules
from .validation import is_unicode, safe_repr

MAX_VALUE_BYTES = 128

ALL = ""
"""The scope of all events."""

LabelPairs = tuple[tuple[str, str], ...]
"""Pairs of the name and the value of a label, sorted by name."""

LabelNames = tuple[str, ...]
"""The labels of a scope without their values."""

_QUOTED = re.compile(r"[%=,:{}@\x00-\x20\x7f]")

Values = tuple[str | None, ...]
"""The values of an event's labels, in the order of a tuple of label names; None for a missing
label."""


class Labels(Struct, frozen=True):
    """The labels of a batch of events: the names, the combinations of values that occur, and which
    combination each event has."""

    names: tuple[str, ...]
    groups: tuple[Values, ...]
    each: "array[int]"

    def take(self, kept: Iterable[int]) -> "Labels":
        """Return the labels of the events at some positions; O(positions)."""
        numbers: dict[int, int] = {}
        each = array("q", [numbers.setdefault(self.each[i], len(numbers)) for i in kept])
        return Labels(self.names, tuple([self.groups[group] for group in numbers]), each)

    def span(self, start: int, end: int) -> "Labels":
        """Return the labels of the events from start to before end; O(end - start)."""
        return self.take(range(start, end))

    def of(self, event: int) -> dict[str, str]:
        """Return the labels of one event."""
        values = self.groups[self.each[event]]
        return {
            name: value for name, value in zip(self.names, values, strict=True) if value is not None
        }

    def scopes(self, spec: RankingSpec) -> dict[int, str | None]:
        """Return, for each combination that occurs, the scope in which its events count for a
        ranking spec; None if the events lack a label of that spec."""
        occurring = set(self.each)
        if spec.by:
            at = self._at(spec.by)
            return {
                i: None if at is None or self.groups[i][at] is None else spec.name
                for i in occurring
            }
        if any(label not in self.names for label in spec.labels):
            return dict.fromkeys(occurring)
        wanted = [self.names.index(label) for label in spec.labels]
        if len(wanted) == 1:
            (at,), (label,) = wanted, spec.labels
            return {i: _part(label, self.groups[i][at]) for i in occurring}
        return {i: _text(spec.labels, [self.groups[i][at] for at in wanted]) for i in occurring}

    def values(self, label: str) -> list[str | None]:
        """Return the value of a label in each combination, None where the label is missing."""
        at = self._at(label)
        return [None if at is None else group[at] for group in self.groups]

    def _at(self, label: str) -> int | None:
        return self.names.index(label) if label in self.names else None


class Groups:
    """Assigns numbers to the combinations of labels in a batch of events."""

    def __init__(
        self, names: tuple[str, ...], ensure: Callable[[Values], None], *, ignores: bool = False
    ) -> None:
        self.numbers: dict[Values, int] = {}
        self._names = names
        self._ignores = ignores
        self._ensure = ensure
        self._numbers_of: dict[object, int] = {}

    def number(self, labels: object) -> int:
        """Return the number that stands for the combination of an event's labels. Raises the error
        of invalid labels."""
        key = tuple(labels.items()) if type(labels) is dict else None
        try:
            return self._numbers_of[key] if key or labels is None else self._new(labels)
        except (KeyError, TypeError):
            number = self._new(labels)
        if key or labels is None:
            self._numbers_of[key] = number
        return number

    def _new(self, labels: object) -> int:
        if labels is not None:
            ensure_label_form(labels)
        values = label_values(self._names, labels, ignores=self._ignores)
        self._ensure(values)
        return self.numbers.setdefault(values, len(self.numbers))


def concatenate(labels: Sequence[tuple[Labels | None, int]]) -> Labels | None:
    """Return the labels of several batches of a board as those of one batch; None if no event has
    labels. Each item has the labels and the size of a batch.

    The batches may differ in the names of their labels, if the board got a label between them.
    """
    names = tuple(sorted({name for each, _ in labels if each for name in each.names}))
    if not names:
        return None
    groups: dict[Values, int] = {}
    indexes = array("q")
    nothing: Values = (None,) * len(names)
    for each, size in labels:
        if each is None:
            indexes.extend([groups.setdefault(nothing, len(groups))] * size)
        else:
            spread = zip(*map(each.values, names), strict=True)
            own = [groups.setdefault(group, len(groups)) for group in spread]
            indexes.extend([own[i] for i in each.each])
    return Labels(names, tuple(groups), indexes)


def _part(label: str, value: str | None) -> str | None:
    """Return the text of a label as a part of a scope's text; None if an event lacks the label."""
    if value is None:
        return None
    return f"{label}={value if value.isalnum() else _QUOTED.sub(_quote, value)}"


def _text(labels: Sequence[str], values: Sequence[str | None]) -> str | None:
    """Return the text of a scope, from its labels sorted by name; None if a label has no value."""
    if None in values:
        return None
    return ",".join(
        [_part(label, value) or "" for label, value in zip(labels, values, strict=True)]
    )


def scope_at(spec: RankingSpec, labels: Mapping[str, str]) -> str | None:
    """Return the scope in which an event with these labels counts for a ranking spec; None if the
    event lacks a label of that spec."""
    if spec.by:
        return spec.name if spec.by in labels else None
    return _text(spec.labels, [labels.get(label) for label in spec.labels])


def is_by(scope: str) -> bool:
    """Return whether a scope ranks the values of a label."""
    return scope.startswith("@")


def _quote(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def form_of(scope: str) -> str:
    """Return the label names of a scope, in the form of `RankingSpec.name`."""
    if is_by(scope):
        return scope
    return ",".join([part.partition("=")[0] for part in scope.split(",")])


def labels_of(scope: str) -> dict[str, str]:
    """Return the labels in the text of a scope; for a ranking by a label, such as `@room`, an empty
    dict."""
    if not scope or is_by(scope):
        return {}
    parts = (part.partition("=") for part in scope.split(","))
    return {label: unquote(value) for label, _, value in parts}


def ensure_label_form(labels: object) -> None:
    """Raise InvalidLabel for labels that JSON cannot represent. No board accepts such labels."""
    parts = chain(labels, labels.values()) if isinstance(labels, Mapping) else (labels,)
    for part in parts:
        is_text = isinstance(part, str) and is_unicode(part)
        if not is_text and part is not None and not isinstance(part, int | float | list | tuple):
            raise InvalidLabel(
                f"expected text for the names and values of labels, got {safe_repr(part)}"
            )


def label_value(label: str, value: object) -> str:
    """Return the value of a label, text of 1 to 128 bytes. Raise InvalidLabel for anything else."""
    if not isinstance(value, str):
        raise InvalidLabel(f"expected text for {label}, got {safe_repr(value)}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidLabel(f"expected valid Unicode for {label}, got {safe_repr(value)}") from error
    if not 1 <= size <= MAX_VALUE_BYTES:
        raise InvalidLabel(f"expected 1 to {MAX_VALUE_BYTES} bytes for {label}, got {size}")
    return value


def _named(labels: object) -> Iterator[tuple[str, object]]:
    """Yield the names and values of `labels`. Raise InvalidLabel if `labels` is not a mapping with
    text as keys."""
    if not isinstance(labels, Mapping):
        raise InvalidLabel(f"expected labels as a mapping of text to text, got {safe_repr(labels)}")
    for label, value in labels.items():
        if not isinstance(label, str):
            raise InvalidLabel(f"expected text as the name of a label, got {safe_repr(label)}")
        yield label, value


def scope_labels(labels: object) -> dict[str, object]:
    """Return the argument `labels` of a query as a dict, empty for None. Raise InvalidLabel if it
    is not a mapping of names to values."""
    if labels is None:
        return {}
    return dict(_named(labels))


def label_pairs(labels: object) -> LabelPairs:
    """Return the argument `labels` of a query as pairs. Raise InvalidLabel if it is not a mapping
    of names to values."""
    if labels is None:
        return ()
    return tuple([(name, label_value(name, value)) for name, value in sorted(_named(labels))])


def labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as one text, with values percent-encoded: `gender=f,zone=cn`."""
    return ",".join([f"{name}={quote(value, safe='')}" for name, value in sorted(labels.items())])


def label_values(names: Sequence[str], labels: object, *, ignores: bool = False) -> Values:
    """Return, for each of the board's labels `names`, its value in the labels of an event; None for
    a label that the event lacks.

    Raises InvalidLabel for invalid labels, and UnknownLabel for a label that the board does not
    have. With `ignores`, such a label is ignored.
    """
    if labels is None:
        return (None,) * len(names)
    if not isinstance(labels, Mapping):
        raise InvalidLabel(f"expected labels as a mapping of text to text, got {safe_repr(labels)}")
    for label in labels:
        if label not in names and not ignores:
            expected = f"a label of the board ({', '.join(names)})" if names else "no labels"
            raise UnknownLabel(f"expected {expected}, got {safe_repr(label)}")
    return tuple(
        [None if labels.get(name) is None else label_value(name, labels[name]) for name in names]
    )


def label_names(rules: Rules, scope: object) -> tuple[str, ...]:
    """Return the label names `scope` in the order in which the board has them. Raise UnknownScope
    if the board has no such scope."""
    names = _sorted_names(scope)
    if names is None or names not in rules.scopes:
        raise UnknownScope(f"expected {_scopes_of(rules)}, got {safe_repr(scope)}")
    return names


def has_scope(rules: Rules, scope: object) -> bool:
    """Return whether the board has the scope with these label names."""
    return _sorted_names(scope) in rules.scopes


def _sorted_names(scope: object) -> tuple[str, ...] | None:
    if isinstance(scope, Sequence) and not isinstance(scope, str):
        return tuple(sorted(map(str, scope)))
    return None


def scope_named(rules: Rules, labels: Mapping[str, object] | None, by: object = None) -> str:
    """Return the scope of a query: the scope of these labels, or the ranking by a label.

    Raises UnknownScope if the board does not have it, InvalidLabel for invalid labels.
    """
    labels = scope_labels(labels)
    if by is None and not labels and () in rules.scopes:
        return ALL
    if by is not None:
        if labels or by not in rules.rank_by:
            wanted = f"by {safe_repr(by)}" + (f" within {_names(labels)}" if labels else "")
            raise UnknownScope(f"expected {_scopes_of(rules)}, got {wanted}")
        return f"@{by}"
    names = tuple(sorted(labels))
    if names not in rules.scopes:
        wanted = f"({_names(labels)})" if names else "no labels"
        raise UnknownScope(f"expected {_scopes_of(rules)}, got {wanted}")
    text = _text(names, [label_value(name, labels[name]) for name in names])
    assert text is not None, "every label has a value"
    return text


def _names(labels: Mapping[str, object]) -> str:
    return ", ".join(sorted(map(str, labels)))


def _scopes_of(rules: Rules) -> str:
    """Return the scopes of the board in words, for a message."""
    key = ["all" if not labels else f"({', '.join(labels)})" for labels in rules.scopes]
    key += [f"by {label}" for label in rules.rank_by]
    return f"a scope of the board ({', '.join(key)})"
