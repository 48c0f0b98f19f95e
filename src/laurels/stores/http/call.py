"""A request that stands for a verb, and what its answer means."""

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
    """One request. `target` is its path with its query; `otherwise` what an error of a code stands
    for where that is an answer; `repeats` says that being sent twice does what being sent once
    does, `keyed` that it then needs a key for the same answer; `patient` that the answer may take
    as long as it likes; `also` are further headers."""

    method: str
    target: str
    decode: Callable[[bytes], T]
    body: bytes | None = None
    otherwise: Mapping[str, T] = field(default_factory=dict)
    repeats: bool = True
    keyed: bool = False
    patient: bool = False
    also: Mapping[str, str] = field(default_factory=dict)

    def headers(self, new_key: Callable[[], str]) -> dict[str, str]:
        """The headers that go with it, each time it is sent."""
        found = {"Accept": "application/json", **self.also}
        if self.method != "GET":
            found["Content-Type"] = "application/json"
        if self.keyed:
            found["Idempotency-Key"] = new_key()
        return found

    def answer(self, status: int, content: bytes) -> T:
        """What the verb answers, from a response. Raises the error the response tells, or
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
        except (ValueError, LookupError) as error:  # what msgspec raises is a ValueError
            raise UnknownAnswer(f"the answer is not that of {self.method} ({error})") from error


def decoder(kind: type[T]) -> Callable[[bytes], T]:
    """Reads an answer of that kind."""
    return msgspec.json.Decoder(kind).decode


def nothing(content: bytes) -> None:
    """The answer of a verb that answers nothing."""
    if content:
        raise ValueError("an answer where none was expected")


def then(decode: Callable[[bytes], Any], take: Callable[[Any], T]) -> Callable[[bytes], T]:
    """Decodes an answer and takes of it what the verb answers."""
    return lambda content: take(decode(content))
