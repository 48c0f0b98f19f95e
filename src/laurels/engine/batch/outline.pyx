# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The outline of a body that has not been decoded yet: how many elements its list has, and where.

Decoding holds the GIL for its whole duration, and can allocate up to 70 times the bytes it reads (8
MiB of empty msgpack arrays become 580 MiB). So a large body is outlined first: one pass over its
bytes, without the GIL, counts the elements of its list, cuts it into pieces between elements, and
finds out whether an element or the whole list has too many values. Then the pieces are decoded one
after another.

Values are counted, not checked. In JSON every value but the first follows one of `[ { , :`, so
these are counted, outside strings; in msgpack every value has a header. Inside a piece only the
decoder, which is strict, decides what is well-formed. The outline itself has to be right about
everything that determines the pieces: strings, the depth of brackets, and the end.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

WHOLE = 0
MALFORMED = 1
TOO_MANY_VALUES = 2
TOO_DEEP = 3
TOO_MANY_IN_ALL = 4

cdef enum:
    C_WHOLE = 0
    C_MALFORMED = 1
    C_TOO_MANY_VALUES = 2
    C_TOO_DEEP = 3
    C_TOO_MANY_IN_ALL = 4
    DEEP = 200                  # the depth from which an element with too many values is TOO_DEEP

cdef struct Cut:
    Py_ssize_t start
    Py_ssize_t end
    Py_ssize_t count

cdef struct Walk:
    const unsigned char *raw
    Py_ssize_t size
    Py_ssize_t at
    Py_ssize_t most_values
    Py_ssize_t most_in_all
    Py_ssize_t piece
    bint is_list
    Py_ssize_t count            # complete elements
    Py_ssize_t values           # values of the current element
    Py_ssize_t total            # values of all elements
    Py_ssize_t start            # where the current piece begins
    Py_ssize_t counted          # elements in the previous pieces
    Cut *cuts
    Py_ssize_t n_cuts


def outline_json(
    bytes raw not None,
    Py_ssize_t most_values,
    Py_ssize_t piece,
    bint lines=False,
    Py_ssize_t most_in_all=PY_SSIZE_T_MAX,
):
    """Outline a JSON document, or with `lines` a text with one document in each line.

    Return (verdict, place, is_list, count, pieces). `count` is the number of elements, 1 if the
    document is not a list. Each piece is (start, end, count): the positions and the number of some
    successive elements. Every piece but the last has at least `piece` bytes. The separators between
    pieces belong to none.

    The verdict is WHOLE if no fault was found. Otherwise `place` is the position of the fault in
    bytes, and the verdict is MALFORMED; TOO_MANY_VALUES if the element with the number `count` has
    more than `most_values` values; TOO_DEEP instead if the first value beyond this limit is in
    deeply nested lists; or TOO_MANY_IN_ALL if all elements together have more than `most_in_all`
    values. O(bytes), without the GIL.
    """
    return _outlined(raw, most_values, most_in_all, piece, 2 if lines else 1)


def outline_msgpack(
    bytes raw not None,
    Py_ssize_t most_values,
    Py_ssize_t piece,
    Py_ssize_t most_in_all=PY_SSIZE_T_MAX,
):
    """Outline a msgpack document, like `outline_json`; the pieces do not include the list's
    header."""
    return _outlined(raw, most_values, most_in_all, piece, 0)


cdef object _outlined(
    bytes raw, Py_ssize_t most_values, Py_ssize_t most_in_all, Py_ssize_t piece, int form
):
    cdef Walk walk
    cdef int verdict
    cdef Py_ssize_t i
    if piece < 1:
        raise ValueError("expected pieces of at least one byte")
    walk.raw = <const unsigned char *>PyBytes_AS_STRING(raw)
    walk.size = PyBytes_GET_SIZE(raw)
    walk.at = walk.count = walk.values = walk.total = 0
    walk.start = walk.counted = walk.n_cuts = 0
    walk.most_values = most_values
    walk.most_in_all = most_in_all
    walk.piece = piece
    walk.is_list = False
    walk.cuts = <Cut *>malloc((walk.size // piece + 2) * sizeof(Cut))
    if walk.cuts is NULL:
        raise MemoryError
    try:
        with nogil:
            if form == 0:
                verdict = _walk_msgpack(&walk)
            elif form == 1:
                verdict = _walk_json(&walk)
            else:
                walk.is_list = True
                verdict = _walk_values(&walk, c'\n', 0)
        pieces = [
            (walk.cuts[i].start, walk.cuts[i].end, walk.cuts[i].count) for i in range(walk.n_cuts)
        ]
        return verdict, walk.at, walk.is_list, walk.count, pieces
    finally:
        free(walk.cuts)


cdef void _cut(Walk *walk, Py_ssize_t end) noexcept nogil:
    """End the current piece before the position `end`."""
    walk.cuts[walk.n_cuts] = Cut(walk.start, end, walk.count - walk.counted)
    walk.n_cuts += 1
    walk.counted = walk.count


cdef bint _is_space(unsigned char c) noexcept nogil:
    return c == c' ' or c == c'\n' or c == c'\r' or c == c'\t'


cdef int _walk_json(Walk *walk) noexcept nogil:
    cdef int verdict
    while walk.at < walk.size and _is_space(walk.raw[walk.at]):
        walk.at += 1
    walk.is_list = walk.at < walk.size and walk.raw[walk.at] == c'['
    if not walk.is_list:
        return _walk_values(walk, 0, 0)
    walk.at += 1
    walk.start = walk.at
    verdict = _walk_values(walk, c',', 1)
    if verdict != C_WHOLE:
        return verdict
    while walk.at < walk.size and _is_space(walk.raw[walk.at]):
        walk.at += 1
    return C_WHOLE if walk.at == walk.size else C_MALFORMED


cdef int _walk_values(Walk *walk, unsigned char separator, Py_ssize_t base) noexcept nogil:
    """Walk over values between separators, up to the `]` that ends the list at depth 1, or to the
    end of the text. `base` is the depth of the values."""
    cdef const unsigned char *raw = walk.raw
    cdef Py_ssize_t i = walk.at, depth = base
    cdef bint is_begun = False
    cdef unsigned char c
    while i < walk.size:
        c = raw[i]
        if c == c'"':
            is_begun = True
            i = _end_of_string(raw, i, walk.size)
            if i < 0:
                walk.at = walk.size
                return C_MALFORMED
        elif c == separator and depth == base:
            # Lines may be empty; a missing value between commas is refused by the decoder.
            if is_begun or separator == c',':
                walk.count += 1
                walk.values = 0
                if i - walk.start >= walk.piece:
                    _cut(walk, i)
                    walk.start = i + 1
            is_begun = False
        elif c == c'[' or c == c'{' or c == c',' or c == c':':
            is_begun = True
            walk.values += 1
            walk.total += 1
            if walk.values > walk.most_values:
                walk.at = i
                return C_TOO_DEEP if depth - base > DEEP else C_TOO_MANY_VALUES
            if walk.total > walk.most_in_all:
                walk.at = i
                return C_TOO_MANY_IN_ALL
            if c == c'[' or c == c'{':
                depth += 1
        elif c == c']' or c == c'}':
            if depth == base:
                walk.at = i
                if base == 0 or c == c'}':
                    return C_MALFORMED
                break
            depth -= 1
        elif not is_begun and not _is_space(c):
            is_begun = True
        i += 1
    walk.at = i
    if base == 1:
        if i == walk.size:
            return C_MALFORMED
        walk.at += 1
    if is_begun or (base == 1 and walk.count):
        walk.count += 1
    if walk.count > walk.counted:
        _cut(walk, i)
    return C_WHOLE


cdef Py_ssize_t _end_of_string(
    const unsigned char *raw, Py_ssize_t quote, Py_ssize_t size
) noexcept nogil:
    """Return the position of the quote that closes a string, or -1 if there is none."""
    cdef const unsigned char *found
    cdef Py_ssize_t at = quote + 1, back
    while at < size:
        found = <const unsigned char *>memchr(raw + at, c'"', size - at)
        if found is NULL:
            return -1
        at = found - raw
        back = at - 1
        while raw[back] == c'\\':
            back -= 1
        if (at - 1 - back) & 1 == 0:
            return at
        at += 1
    return -1


cdef int _walk_msgpack(Walk *walk) noexcept nogil:
    cdef uint64_t left = 1
    cdef int verdict
    cdef unsigned char c
    walk.is_list = walk.size > 0 and (
        0x90 <= walk.raw[0] <= 0x9f or walk.raw[0] == 0xdc or walk.raw[0] == 0xdd
    )
    if walk.is_list:
        verdict = _header(walk, &left)
        if verdict != C_WHOLE:
            return verdict
    walk.start = walk.at
    while left:
        walk.values = 0
        verdict = _walk_value(walk)
        if verdict != C_WHOLE:
            return verdict
        left -= 1
        walk.count += 1
        if walk.at - walk.start >= walk.piece:
            _cut(walk, walk.at)
            walk.start = walk.at
    if walk.count > walk.counted:
        _cut(walk, walk.at)
    return C_WHOLE if walk.at == walk.size else C_MALFORMED


cdef int _walk_value(Walk *walk) noexcept nogil:
    """Walk over a value and all values nested in it."""
    cdef uint64_t left = 1, inside
    cdef Py_ssize_t depth = 0   # how many lists are nested directly as first elements
    cdef int verdict
    while left:
        verdict = _header(walk, &inside)
        if verdict != C_WHOLE:
            return verdict
        walk.values += 1
        walk.total += 1
        depth = depth + 1 if inside else 0
        if walk.values > walk.most_values:
            return C_TOO_DEEP if depth > DEEP else C_TOO_MANY_VALUES
        if walk.total > walk.most_in_all:
            return C_TOO_MANY_IN_ALL
        left += inside - 1
    return C_WHOLE


cdef uint64_t _number(const unsigned char *raw, Py_ssize_t size) noexcept nogil:
    """Return a big-endian number of `size` bytes."""
    cdef uint64_t number = 0
    cdef Py_ssize_t i
    for i in range(size):
        number = number << 8 | raw[i]
    return number


cdef int _header(Walk *walk, uint64_t *inside) noexcept nogil:
    """Walk over a value's header and its own bytes; set `inside` to the number of nested values
    that follow."""
    cdef uint64_t own = 0
    cdef Py_ssize_t width = 0
    cdef unsigned char c
    inside[0] = 0
    if walk.at >= walk.size:
        return C_MALFORMED
    c = walk.raw[walk.at]
    walk.at += 1
    if c <= 0x7f or c >= 0xe0 or c == 0xc0 or c == 0xc2 or c == 0xc3:
        return C_WHOLE
    if c <= 0x8f:
        inside[0] = 2 * (c & 0x0f)
    elif c <= 0x9f:
        inside[0] = c & 0x0f
    elif c <= 0xbf:
        own = c & 0x1f
    elif c == 0xc1:
        return C_MALFORMED
    elif 0xca <= c <= 0xd3:
        # float 32 and 64, then unsigned and signed integers of 1, 2, 4 and 8 bytes
        own = 4 if c == 0xca else 8 if c == 0xcb else 1 << ((c - 0xcc) & 3)
    elif 0xd4 <= c <= 0xd8:
        own = 1 + (1 << (c - 0xd4))
    else:
        # bin, ext and str have lengths of 1, 2 or 4 bytes, arrays and maps of 2 or 4
        if c <= 0xc6:
            width = 1 << (c - 0xc4)
        elif c <= 0xc9:
            width = 1 << (c - 0xc7)
        elif c <= 0xdb:
            width = 1 << (c - 0xd9)
        else:
            width = 4 if c & 1 else 2
        if walk.size - walk.at < width:
            return C_MALFORMED
        own = _number(walk.raw + walk.at, width)
        walk.at += width
        if 0xc7 <= c <= 0xc9:
            own += 1
        elif c >= 0xdc:
            inside[0] = own if c <= 0xdd else 2 * own
            own = 0
    if own > <uint64_t>(walk.size - walk.at) or inside[0] > <uint64_t>(walk.size - walk.at):
        return C_MALFORMED
    walk.at += own
    return C_WHOLE
