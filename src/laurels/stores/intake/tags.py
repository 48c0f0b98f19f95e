"""Random numbers that identify records and boards."""

import secrets


def new_tag() -> int:
    """Return a random tag for the changes of a record, at least 1."""
    return secrets.randbits(48) or 1


def new_uid() -> str:
    """Return a random id for a board, different from that of any board in any store."""
    return secrets.token_hex(8)


def new_token() -> str:
    """Return a random id that stands in the places of an erased member."""
    return f"erased-{secrets.token_hex(12)}"


def new_secret(nbytes: int) -> bytes:
    """Return random bytes that nobody can guess."""
    return secrets.token_bytes(nbytes)


def new_owner() -> str:
    """Return a random token for the move of a board, different from that of any other move."""
    return secrets.token_hex(8)
