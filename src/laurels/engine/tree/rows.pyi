from array import array

from typing_extensions import Buffer

def negated(column: Buffer) -> array[int]: ...
