"""Slots of a cluster that move to another node.

A script is told of one key of a board and finds the others itself; all of them lie in one slot.
While that moves, some are on one node and some on the other. The node they come from refuses what
it no longer has, perhaps in the midst of a script; on the other, keys that are still to come look
like keys that never were, and a script would count on from nothing.

So in a cluster every script begins with a look at two keys: its own, and one that there never is.
Of two keys of a slot that moves, one of which is missing, both nodes refuse to speak, whatever
else is there (Redis 6.2 to 8, Valkey). Then nothing was done, and the call is made again until the
slot has moved.
"""

import hashlib
from binascii import crc_hqx
from functools import cache

from laurels.stores.redis.scripts import Script

MOVING_SECONDS = 0.05
"""After how long a call is made again that a moving slot has refused."""

_SLOTS = 16_384
_LOOK = "redis.call('EXISTS', KEYS[1], ARGV[2])\n"


def slot_of(key: bytes) -> int:
    """Return the slot of a cluster in which a key lies: of its part between { and }, if it has
    one."""
    _, _, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return crc_hqx(tag if tag and closed else key, 0) % _SLOTS


def beside(key: bytes) -> bytes:
    """A key that there never is, in the slot of `key`."""
    found = key + b"~"
    return found if slot_of(found) == slot_of(key) else b"{%b}~" % key


@cache
def guarded(script: Script) -> Script:
    """Return the script behind a look at KEYS[1] and ARGV[2]."""
    source = _LOOK + script.source
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(script.name, source, sha)
