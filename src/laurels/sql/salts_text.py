"""The salts of a ranking, and the entries whose members were erased, as the text in the column
`salts` of `final_rankings`: a list of secrets, or an object with the secrets and the erased entries
if there are any. An earlier version cannot read the object. This is intended, since it would
compute a wrong digest for a ranking with erased entries. Pure."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from laurels.core.digest import ErasedEntry

Secrets = list[tuple[int, int, bytes]]
"""The secrets of nodes of the tree of salts, each with its level and number."""
_Node = tuple[int, int, str]


class _WithErased(Struct):
    secrets: list[_Node]
    erased: list[tuple[int, str, str]]


_decoder = msgspec.json.Decoder(list[_Node] | _WithErased)


def encode_salts(secrets: Sequence[tuple[int, int, bytes]], erased: Sequence[ErasedEntry]) -> str:
    """Return the text of secrets and erased entries."""
    nodes = [(level, number, secret.hex()) for level, number, secret in secrets]
    if not erased:
        return msgspec.json.encode(nodes).decode()
    entries = [(each.position, each.hash.hex(), each.token) for each in erased]
    return msgspec.json.encode(_WithErased(nodes, entries)).decode()


def decode_salts(text: str) -> tuple[Secrets, list[ErasedEntry]]:
    """Return the secrets and the erased entries in a text."""
    decoded = _decoder.decode(text)
    nodes, entries = (
        (decoded.secrets, decoded.erased) if isinstance(decoded, _WithErased) else (decoded, [])
    )
    secrets = [(level, number, bytes.fromhex(secret)) for level, number, secret in nodes]
    erased = [
        ErasedEntry(position, bytes.fromhex(hashed), token) for position, hashed, token in entries
    ]
    return secrets, erased
