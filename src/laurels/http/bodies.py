"""Reading the body of a request, within its limits."""

from granian.rsgi import HTTPProtocol, ProtocolClosed  # type: ignore[attr-defined]

from . import requests
from .refusals import InvalidBody


async def read_body(length: str | None, protocol: HTTPProtocol, most: int) -> bytes:
    """Return the body of a request; `length` is its Content-Length.

    Raises BodyTooLarge beyond `most` bytes, InvalidBody where the client went before its end.
    """
    if length is not None and length.isdigit():
        requests.ensure_size(int(length), most)
        try:
            return await protocol()
        except ProtocolClosed as error:
            raise InvalidBody("the body broke off") from error
    parts, is_whole = bytearray(), True
    async for part in protocol:
        # Where the client goes in the middle there is an empty part before the last one.
        if not is_whole:
            raise InvalidBody("the body broke off")
        is_whole = bool(part)
        parts += part
        requests.ensure_size(len(parts), most)
    return bytes(parts)
