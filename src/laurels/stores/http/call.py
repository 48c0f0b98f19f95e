"""Requests that carry out verbs, and the decoding of their responses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from laurels.errors import LaurelsError
from laurels.errors.service import UnknownAnswer
from laurels.wire.problems import error_of

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request.

    - `target`: its path with the query string.
    - `decode`: a function from the content of a successful response to the result of the verb.
    - `error_results`: for some error codes, the result that the verb returns instead of raising the
      error.
    - `is_repeatable`: whether sending the request twice has the same effect as sending it once.
    - `needs_idempotency_key`: whether the request needs an Idempotency-Key to get the same answer
      both times.
    - `no_timeout`: whether the answer has no time limit.
    - `extra_headers`: additional headers.
    - `board`: the board whose version the answer may report; None if it reports no version.
    """

    method: str
    target: str
    decode: Callable[[bytes], T]
    body: bytes | None = None
    error_results: Mapping[str, T] = field(default_factory=dict)
    is_repeatable: bool = True
    needs_idempotency_key: bool = False
    no_timeout: bool = False
    extra_headers: Mapping[str, str] = field(default_factory=dict)
    board: str | None = None

    def headers(self, new_key: Callable[[], str]) -> dict[str, str]:
        """Return the headers of the request. `new_key` makes the Idempotency-Key if one is
        needed."""
        headers = {"Accept": "application/json", **self.extra_headers}
        if self.method != "GET":
            headers["Content-Type"] = "application/json"
        if self.needs_idempotency_key:
            headers["Idempotency-Key"] = new_key()
        return headers

    def answer(self, status: int, content: bytes) -> T:
        """Return the verb's result from a response. Raises the error in the response, or
        UnknownAnswer."""
        if not 200 <= status < 300:
            error = error_of(status, content)
            if error.code in self.error_results:
                return self.error_results[error.code]
            raise error
        try:
            return self.decode(content)
        except LaurelsError:
            raise
        except (ValueError, LookupError) as error:  # the errors of msgspec are ValueErrors
            raise UnknownAnswer(
                f"expected a valid answer to {self.method}, got an invalid one ({error})"
            ) from error


def decoder(kind: type[T]) -> Callable[[bytes], T]:
    """Return a function that decodes an answer as a value of a type."""
    return msgspec.json.Decoder(kind).decode


def nothing(content: bytes) -> None:
    """Decode an empty answer, of a verb without a result. Raise ValueError for any other answer."""
    if content:
        raise ValueError("expected an empty answer")


def mapped(decode: Callable[[bytes], Any], take: Callable[[Any], T]) -> Callable[[bytes], T]:
    """Return a function that decodes an answer by `decode` and returns `take` of the decoded
    value."""
    return lambda content: take(decode(content))
