"""Convert values to parameters of a request (in the client), and back (in the service)."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from urllib.parse import quote, unquote_to_bytes, urlencode

from laurels.core.between import Bound
from laurels.errors import (
    InvalidPercentile,
    InvalidRange,
    InvalidValue,
    UnknownBoard,
    UnknownScope,
)
from laurels.errors.service import InvalidQuery
from laurels.model.labels import LabelPairs, label_pairs, labels_text
from laurels.model.score import any_number
from laurels.model.validation import integer, is_name, safe_repr


def write_bound(bound: Bound | None) -> str | None:
    """Convert a bound of a range to text. Raises InvalidRange, and the errors of `any_number`."""
    if bound is None:
        return None
    parts = bound if isinstance(bound, (tuple, list)) else (bound,)
    if not parts:
        raise InvalidRange("expected 1 or more values for a bound, got ()")
    texts = [str(any_number(part)) for part in parts]
    if any("," in text for text in texts):
        raise InvalidValue(f"expected a decimal number, got {safe_repr(bound)}")
    return ",".join(texts)


def read_bound(text: str | None) -> Bound | None:
    """Convert text to a bound of a range. The values of several columns are separated by commas, as
    in `10,3`."""
    return tuple(text.split(",")) if text is not None and "," in text else text


def write_percentile(percentile: object) -> str:
    """Convert a percentile to text. Raises InvalidPercentile."""
    if (count := integer(percentile)) is not None:
        return str(count)
    if isinstance(percentile, (float, Decimal, str)):
        return str(percentile)
    raise InvalidPercentile(f"expected a number from 0 to 100, got {safe_repr(percentile)}")


def write_labels(labels: LabelPairs | None) -> str | None:
    """Convert the labels of a scope to one parameter, with percent-encoded values; None if there
    are no labels. Raises UnknownScope for a name that no label can have."""
    for name, _ in labels or ():
        if not name.isidentifier():
            raise UnknownScope(f"no board has a label called {safe_repr(name)}")
    return labels_text(dict(labels or ())) or None


def read_labels(text: str | None) -> LabelPairs:
    """Convert a parameter with percent-encoded values to the labels of a scope; None stands for no
    labels. Raises InvalidQuery, InvalidLabel."""
    labels: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, separator, value = part.partition("=")
        if not separator or not name:
            raise InvalidQuery(f"expected labels as NAME=VALUE,NAME=VALUE, got {safe_repr(text)}")
        if name in labels:
            raise InvalidQuery(f"expected each label once, got {safe_repr(name)} twice")
        labels[name] = unquoted(value) if "%" in value else value
    return label_pairs(labels)


def write_label_names(labels: object) -> str | None:
    """Convert the names of labels to one parameter. Raises UnknownScope if `labels` is not a list
    of such names."""
    if labels is None:
        return None
    if isinstance(labels, Sequence) and not isinstance(labels, str):
        names = [str(name) for name in labels]
        if all(map(str.isidentifier, names)):
            return ",".join(names)
    raise UnknownScope(f"expected a list of names of labels, got {safe_repr(labels)}")


def read_label_names(text: str | None) -> tuple[str, ...] | None:
    """Convert a parameter such as `zone,gender` to the names of labels; None if it is absent. An
    empty parameter stands for the scope of all events, which has no labels."""
    return None if text is None else tuple([name for name in text.split(",") if name])


def target(path: str, /, **query: object) -> str:
    """Return a path with a query string of those parameters that are not None. Raises InvalidQuery
    for text that is not Unicode."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None
    }
    try:
        return f"{path}?{urlencode(texts)}" if texts else path
    except UnicodeEncodeError as error:
        raise InvalidQuery("a parameter is not valid Unicode") from error


def board_path(board: object, *rest: str) -> str:
    """Return the path of a board. Raises UnknownBoard for a name that no board can have."""
    if not is_name(board):
        raise UnknownBoard(f"there is no board {safe_repr(board)}")
    return "/".join(["/v1/boards", quote(board), *rest])


def read_parameters(raw: str) -> Mapping[str, str]:
    """Parse a query string into parameters by name. Raises InvalidQuery."""
    parameters: dict[str, str] = {}
    is_escaped = "%" in raw or "+" in raw
    for part in raw.split("&") if raw else ():
        name, separator, value = part.partition("=")
        if is_escaped:
            name, value = _decode_form_text(name), _decode_form_text(value)
        if not separator:
            raise InvalidQuery(f"expected a value for the parameter {safe_repr(name)}, got none")
        if name in parameters:
            raise InvalidQuery(f"expected the parameter {safe_repr(name)} once, got it twice")
        parameters[name] = value
    return parameters


def _decode_form_text(raw: str) -> str:
    return unquoted(raw.replace("+", " "))


def unquoted(text: str) -> str:
    """Decode percent-encoded text. Raises InvalidQuery if it is not UTF-8."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as error:
        raise InvalidQuery("the query is not UTF-8") from error
