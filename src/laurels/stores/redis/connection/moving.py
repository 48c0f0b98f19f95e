"""Cluster slots that are being moved to another node.

A script gets one key of a board and derives the others, all in the same slot. While a slot is being
moved, some of its keys are on one node and some on the other. The source node refuses access to
keys that it no longer has, possibly in the middle of a script. On the target node, keys that have
not arrived yet seem not to exist, and a script would start counting from zero.

So in a cluster every script begins by reading two keys in one command: its own, and one that never
exists. While a slot is being moved, both nodes refuse a command with two keys of the slot if one of
them is missing (Redis 6.2 to 8, Valkey). The script then fails before it has done anything, and the
call is repeated until the slot has moved.
"""

import hashlib
from binascii import crc_hqx
from functools import cache

from laurels.stores.redis.scripts import Script

MOVING_SECONDS = 0.05
"""How many seconds to wait before repeating a call that was refused because its slot is being
moved."""

_SLOTS = 16_384
_GUARD = "redis.call('EXISTS', KEYS[1], ARGV[2])\n"


def slot_of(key: bytes) -> int:
    """Return the cluster slot of a key: a hash of the part between { and }, or of the whole key if
    there is no such part."""
    _, _, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return crc_hqx(tag if tag and closed else key, 0) % _SLOTS


def sibling_key(key: bytes) -> bytes:
    """Return a key that never exists, in the same slot as `key`."""
    sibling = key + b"~"
    return sibling if slot_of(sibling) == slot_of(key) else b"{%b}~" % key


@cache
def guarded(script: Script) -> Script:
    """Return the script, preceded by a check that reads KEYS[1] and the key in ARGV[2]."""
    source = _GUARD + script.source
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(script.name, source, sha)
