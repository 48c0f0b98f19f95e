"""The base of all answers: each is a mapping of plain values, ready for JSON.

`to_dict()` is what the service sends as JSON, with one difference: a Decimal becomes its text. Most
programs, and the JSON encoders of web frameworks, treat a JSON number as a binary float, so `12.50`
or a score of 20 digits would not come back exactly. `submit` reads such a text as the same number
again.

`keys()` and `[name]` work as in the dictionary of `to_dict()`, like rows of `sqlite3`, so
`dict(answer)` equals `to_dict()`. A FastAPI handler may therefore return an answer as it is. If a
handler has an answer as its return type (`-> laurels.Page`), the OpenAPI description has the
answer's schema, which pydantic finds here.
"""

from collections.abc import KeysView
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


class _PydanticSerializer:
    """The serializer that pydantic looks up on a value whose type is not annotated (`Any`)."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __get__(self, instance: object, owner: "type[Plain]") -> Any:
        try:
            from pydantic_core import SchemaSerializer  # noqa: PLC0415 (pydantic is optional)
        except ImportError as error:
            raise AttributeError("pydantic is not installed") from error
        if owner.__qualname__ not in self._made:
            self._made[owner.__qualname__] = SchemaSerializer(_core_schema(owner))
        return self._made[owner.__qualname__]


class Plain:
    """An answer that is also a mapping of plain values."""

    __slots__ = ()
    __iter__: Any = None  # without this, Python iterates by `[0]`, `[1]`, as over a sequence
    __pydantic_serializer__ = _PydanticSerializer()

    def to_dict(self) -> dict[str, Any]:
        """Return the answer with only dict, list, str, int, float, bool and None, at all levels.

        A Decimal becomes its text, and a tuple a list. Optional parts of an entry that were not
        requested (`data`, `place`) are left out.
        """
        fields: dict[str, Any] = plain(self)
        return fields

    def keys(self) -> KeysView[str]:
        """Return the names in `to_dict()`."""
        return self.to_dict().keys()

    def __getitem__(self, name: Any) -> Any:
        return self.to_dict()[name]

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: "GetCoreSchemaHandler"
    ) -> "CoreSchema":
        return _core_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler"
    ) -> dict[str, Any]:
        return {"title": cls.__name__, "type": "object"}


class Answer(Plain, Struct, frozen=True):
    """A record that a verb returns."""

    def __getitem__(self, name: Any) -> Any:
        if name not in self.__struct_fields__:
            raise KeyError(name)
        return plain(getattr(self, name))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler"
    ) -> dict[str, Any]:
        (described,), parts = msgspec.json.schema_components([cls], ref_template="{name}")
        inlined: dict[str, Any] = _inlined(described, parts)
        return inlined


def plain(value: object) -> Any:
    """Return a value as plain values: a Decimal as its text, a tuple as a list."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _core_schema(kind: type[Plain]) -> "CoreSchema":
    """Return pydantic's schema for a kind of answer.

    The schema serializes the answer by `to_dict()`.
    """
    from pydantic_core import core_schema  # noqa: PLC0415 (only called by pydantic)

    as_dict = core_schema.plain_serializer_function_ser_schema(kind.to_dict)
    return core_schema.is_instance_schema(kind, serialization=as_dict)


def _inlined(schema: object, parts: dict[str, dict[str, Any]]) -> Any:
    """Return a JSON schema with references replaced by the parts that they refer to."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(parts[schema["$ref"]], parts)
        return {key: _inlined(value, parts) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_inlined(value, parts) for value in schema]
    return schema
