from array import array
from collections.abc import Sequence

from typing_extensions import Buffer

def entry_hashes(salts: bytes, words: Sequence[Buffer], arena: bytes, lengths: bytes) -> bytes: ...
def member_hashes(key: bytes, arena: bytes, lengths: bytes) -> array[int]: ...
