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
    - `otherwise`: the results of the verb for some error codes that are regular answers.
    - `repeats`: whether sending the request twice has the same effect as sending it once.
    - `keyed`: whether the request needs an Idempotency-Key to get the same answer both times.
    - `patient`: whether the answer has no time limit.
    - `also`: additional headers.
    - `board`: the board of the request, if its answers have a version.
    """

    method: str
    target: str
    decode: Callable[[bytes], T]
    body: bytes | None = None
    otherwise: Mapping[str, T] = field(default_factory=dict)
    repeats: bool = True
    keyed: bool = False
    patient: bool = False
    also: Mapping[str, str] = field(default_factory=dict)
    board: str | None = None

    def headers(self, new_key: Callable[[], str]) -> dict[str, str]:
        """Return the headers of the request. If the request is `keyed`, `new_key` makes its
        Idempotency-Key."""
        headers = {"Accept": "application/json", **self.also}
        if self.method != "GET":
            headers["Content-Type"] = "application/json"
        if self.keyed:
            headers["Idempotency-Key"] = new_key()
        return headers

    def answer(self, status: int, content: bytes) -> T:
        """Return the verb's result from a response. Raises the error in the response, or
        UnknownAnswer."""
        if not 200 <= status < 300:
            error = error_of(status, content)
            if error.code in self.otherwise:
                return self.otherwise[error.code]
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


def then(decode: Callable[[bytes], Any], take: Callable[[Any], T]) -> Callable[[bytes], T]:
    """Return a function that decodes an answer by `decode` and returns `take` of the decoded
    value."""
    return lambda content: take(decode(content))
