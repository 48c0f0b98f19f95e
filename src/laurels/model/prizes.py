"""Prizes: what the leading members of a period receive, as a window defines it. Pure.

    {"list": [{"name": "gold", "ranks": [1, 1], "amount": "500.00", "scale": 2},
              {"name": "top", "percent": "0.5"},
              {"name": "thousand", "at_least": 1000, "data": {"badge": 7}}],
     "ties": "split", "pay_after": "1h", "scopes": [[], ["room"]]}

`Prizes` holds the canonical form, in which two definitions with the same meaning are equal.
`core/prizes.py` decides who wins.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Struct, structs

from laurels.errors import BoardInvalid, LaurelsError, ValueOutOfRange

from .answer import Plain
from .column import Column
from .definition_errors import DefinitionErrors
from .durations import duration_ms, duration_of, duration_text
from .scopes import canonical_scopes
from .score import LIMIT, MAX_SCALE, Number, exact_units, shortest_value, to_value
from .validation import integer_within, is_unicode, one_of, quoted, safe_repr

Ties = Literal["all", "first", "split"]
Scopes = tuple[tuple[str, ...], ...]
MAX_PRIZES = 100
MAX_PRIZE_NAME = 64
MAX_RANK = 1_000_000_000
MAX_PRIZE_DATA = 1_024
"""The greatest size of the data of a prize as JSON, in bytes."""
PERCENT_PLACES = 12
_CONDITIONS = ("ranks", "percent", "at_least")

T = TypeVar("T")


class Prize(Plain, Struct, frozen=True, omit_defaults=True):
    """One prize of a window.

    Exactly one of three fields says who receives it: `ranks`, the first and the last position;
    `percent`, the leading share of the ranking in percent, an exact number above 0 and up to 100,
    rounded up to whole positions; `at_least`, a score that is reached, with several columns one
    number for each of the first of them. In a column in which less is better, `at_least` is the
    greatest score that suffices.

    `amount` is what each position receives, with `scale` decimal places; None for a prize that
    cannot be divided. `data` is any JSON of up to 1 KiB, for the program that hands the prize out.
    """

    name: str
    ranks: tuple[int, int] | None = None
    percent: Decimal | None = None
    at_least: int | Decimal | tuple[int | Decimal, ...] | None = None
    amount: int | Decimal | None = None
    scale: int = 0
    data: Any = None

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__struct_fields__ if name != "data"))

    @property
    def amount_units(self) -> int | None:
        """The amount in units of 10^-scale; None without an amount."""
        return None if self.amount is None else exact_units(self.amount, self.scale, "amount")

    @property
    def least(self) -> tuple[Number, ...]:
        """The numbers of `at_least`, one for each of the first columns."""
        if self.at_least is None:
            return ()
        return self.at_least if isinstance(self.at_least, tuple) else (self.at_least,)


class Prizes(Plain, Struct, frozen=True):
    """The prizes of a window, and the rules by which they are awarded.

    `ties` decides what members with equal columns receive. With `all`, each of these members has
    the prizes of their best position; with `first`, each has the prizes of its own position; with
    `split`, the amounts of the prizes for all their positions are divided among them. A payout is
    due `pay_after` after its period was sealed. Prizes are awarded in each of `scopes`, lists of
    label names; `[]` is the ranking of all events.
    """

    list: tuple[Prize, ...]
    ties: Ties = "all"
    pay_after: str = "0s"
    scopes: Scopes = ((),)

    @property
    def pay_after_ms(self) -> int:
        """How long after the seal of its period a payout is due, in milliseconds."""
        return duration_ms(self.pay_after)

    @property
    def text(self) -> str:
        """The canonical text, JSON without spaces. `prizes_of` reads it back as equal prizes."""
        return _encoder.encode(self).decode()


_encoder = msgspec.json.Encoder(order="deterministic")
_data_encoder = msgspec.json.Encoder(order="deterministic", decimal_format="number")
_decoder = msgspec.json.Decoder(float_hook=Decimal)


def prizes_of(value: object) -> Prizes:
    """Return prizes in canonical form, from a mapping, from its JSON text, or from Prizes. Raise
    BoardInvalid with every fault."""
    errors = DefinitionErrors("prizes")
    fields = errors.read(_mapping, value, None)
    if fields is None:
        errors.raise_any()
        raise AssertionError("prizes that are not a mapping have an error")
    for key in fields:
        if key not in Prizes.__struct_fields__:
            expected = ", ".join(Prizes.__struct_fields__)
            errors.add(f"unknown field {safe_repr(key)}: expected one of {expected}")

    def read(field: str, parse: Callable[[object], T], fallback: T) -> T:
        return errors.read(parse, fields[field], fallback) if field in fields else fallback

    items: tuple[Prize, ...] = ()
    if "list" in fields:
        items = errors.read(_prizes, fields["list"], ())
    else:
        errors.add("expected a list of prizes in list, got none")
    ties: Ties = read("ties", lambda each: one_of(each, get_args(Ties), "ties"), "all")
    pay_after_ms = read("pay_after", partial(duration_of, "pay_after"), 0)
    everybody: Scopes = ((),)
    scopes = read("scopes", canonical_scopes, everybody)
    for prize in items if ties == "split" else ():
        if prize.amount is None:
            errors.add(
                f"prize {quoted(prize.name)}: expected an amount with ties split, got none: only "
                "an amount can be divided"
            )
    errors.raise_any()
    return Prizes(items, ties, duration_text(pay_after_ms), scopes)


def prize_errors(
    prizes: Prizes, columns: Sequence[Column], scopes: Sequence[tuple[str, ...]], head: int
) -> Iterator[str]:
    """Yield the reasons why a board with these columns, scopes and head cannot award prizes."""
    for scope in prizes.scopes:
        if scope not in scopes:
            yield f"prizes: expected scopes of the board, got {list(scope)}"
    for prize in prizes.list:
        called = f"prizes: prize {quoted(prize.name)}"
        if len(prize.least) > len(columns):
            yield (
                f"{called}: expected at_least to have at most one number for each column, "
                f"{len(columns)}, got {len(prize.least)}"
            )
        for number, column in zip(prize.least, columns, strict=False):
            try:
                exact_units(number, column.scale, column.name)
            except LaurelsError as error:
                yield f"{called}: at_least: {error.what}"
        if head and prize.ranks is None:
            condition = "at_least" if prize.percent is None else "percent"
            yield (
                f"{called}: expected ranks up to the head, {head}, got {condition}: it may reach "
                "members below the head, whose positions are not known exactly"
            )
        elif head and prize.ranks is not None and prize.ranks[1] > head:
            yield f"{called}: expected ranks up to the head, {head}, got {list(prize.ranks)}"


def _mapping(value: object) -> Mapping[str, Any]:
    if isinstance(value, Prizes):
        return structs.asdict(value)
    if isinstance(value, str):
        try:
            value = _decoder.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise BoardInvalid(f"expected JSON, got text that is not: {error}") from error
    if isinstance(value, Mapping):
        return value
    raise BoardInvalid(f"expected an object with a list of prizes, got {safe_repr(value)}")


def _prizes(value: object) -> tuple[Prize, ...]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise BoardInvalid(f"expected a list of prizes, got {safe_repr(value)}")
    if not 1 <= len(value) <= MAX_PRIZES:
        raise BoardInvalid(f"expected 1 to {MAX_PRIZES} prizes, got {len(value)}")
    errors = DefinitionErrors()
    read = [errors.read(_prize, each, None) for each in value]
    prizes = tuple([prize for prize in read if prize is not None])
    for name, count in Counter([prize.name for prize in prizes]).items():
        if count > 1:
            errors.add(f"expected distinct names of prizes, got {quoted(name)} {count} times")
    errors.raise_any()
    return prizes


def _prize(value: object) -> Prize:
    fields = structs.asdict(value) if isinstance(value, Prize) else value
    if not isinstance(fields, Mapping):
        raise BoardInvalid(f"expected a prize as an object, got {safe_repr(value)}")
    errors = DefinitionErrors(f"prize {safe_repr(fields.get('name'))}")
    for key in fields:
        if key not in Prize.__struct_fields__:
            errors.add(f"unknown field {safe_repr(key)}")

    def read(field: str, parse: Callable[[Any], T]) -> T | None:
        written = fields.get(field)
        return None if written is None else errors.read(parse, written, None)

    conditions = [name for name in _CONDITIONS if fields.get(name) is not None]
    if len(conditions) != 1:
        got = " and ".join(conditions) or "none"
        errors.add(f"expected one of {', '.join(_CONDITIONS)}, got {got}")
    scale = read("scale", _scale) or 0
    prize = Prize(
        name=errors.read(_name, fields.get("name"), ""),
        ranks=read("ranks", _ranks),
        percent=read("percent", _percent),
        at_least=read("at_least", _at_least),
        amount=read("amount", partial(_amount, scale)),
        scale=scale,
        data=read("data", _data),
    )
    errors.raise_any()
    return prize


def _name(value: object) -> str:
    if isinstance(value, str) and 1 <= len(value) <= MAX_PRIZE_NAME and is_unicode(value):
        return value
    raise BoardInvalid(
        f"expected text of 1 to {MAX_PRIZE_NAME} characters for the name of a prize, got "
        f"{safe_repr(value)}"
    )


def _ranks(value: object) -> tuple[int, int]:
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and len(value) == 2:
        first = integer_within(value[0], 1, MAX_RANK)
        last = integer_within(value[1], 1, MAX_RANK)
        if first is not None and last is not None and first <= last:
            return first, last
    raise BoardInvalid(
        f"expected ranks as the first and the last position, as in [1, 10], got {safe_repr(value)}"
    )


def _percent(value: object) -> Decimal:
    try:
        units = exact_units(value, PERCENT_PLACES, "percent", 100 * 10**PERCENT_PLACES)
    except ValueOutOfRange:
        units = 0
    if units <= 0:
        raise BoardInvalid(
            f"expected percent to be above 0 and at most 100, got {safe_repr(value)}"
        )
    return Decimal(shortest_value(units, PERCENT_PLACES))


def _at_least(value: object) -> Number | tuple[Number, ...]:
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        numbers = tuple(map(_least, value))
        if numbers:
            return numbers if len(numbers) > 1 else numbers[0]
        raise BoardInvalid("expected at_least to have a number, got none")
    return _least(value)


def _least(value: object) -> Number:
    return shortest_value(
        exact_units(value, MAX_SCALE, "at_least", LIMIT * 10**MAX_SCALE), MAX_SCALE
    )


def _scale(value: object) -> int:
    if (places := integer_within(value, 0, MAX_SCALE)) is not None:
        return places
    raise BoardInvalid(
        f"expected an integer from 0 to {MAX_SCALE} for scale, got {safe_repr(value)}"
    )


def _amount(scale: int, value: object) -> Number:
    units = exact_units(value, scale, "amount")
    if units <= 0:
        raise BoardInvalid(f"expected an amount above 0, got {safe_repr(value)}")
    return to_value(units, scale)


def _data(value: object) -> Any:
    """Return the data of a prize as plain JSON values."""
    try:
        encoded = _data_encoder.encode(value)
        decoded = msgspec.json.decode(encoded)
        unchanged = value in (decoded, _decoder.decode(encoded))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise BoardInvalid(f"the data cannot be written as JSON ({error})") from error
    if not unchanged:
        raise BoardInvalid("the data changes when it is written as JSON and read back")
    if len(encoded) > MAX_PRIZE_DATA:
        raise BoardInvalid(
            f"expected at most {MAX_PRIZE_DATA:,} bytes of data, got {len(encoded):,}"
        )
    return decoded
