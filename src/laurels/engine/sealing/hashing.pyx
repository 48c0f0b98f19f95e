# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The hashes of the entries of a sealed ranking, for its digest and for the index of its members.

Members are concatenated in an arena, and `lengths` has the number of bytes of each, one byte a
member. All calls release the GIL while they hash.
"""
from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from laurels.engine.buffers cimport BufferViews, acquire_buffer, items, longs, release_buffers
from .sha256 cimport DIGEST, MESSAGE_ROOM, hash_message

cdef enum:
    SALT = 16                   # the bytes of a salt
    WORDS_MOST = 28             # the most words of an entry: a salt and 255 bytes fit as well
    KEY_MOST = 64

cdef array.array UNSIGNED = array.array("Q")


cdef inline uint8_t *put_word(uint8_t *at, int64_t word) noexcept nogil:
    """Write a word, the lowest byte first, and return where it ends."""
    cdef int i
    for i in range(8):
        at[i] = <uint8_t>(<uint64_t>word >> 8 * i)
    return at + 8


cdef int check_arena(bytes arena, bytes lengths) except -1:
    """Raise ValueError unless the lengths add up to the size of the arena."""
    cdef const uint8_t *length = <const uint8_t *>PyBytes_AS_STRING(lengths)
    cdef Py_ssize_t i, total = 0
    for i in range(PyBytes_GET_SIZE(lengths)):
        total += length[i]
    if total != PyBytes_GET_SIZE(arena):
        raise ValueError(f"the lengths of the members add up to {total} bytes, but the arena has "
                         f"{PyBytes_GET_SIZE(arena)}")
    return 0


cdef void hash_entries(const uint8_t *salt, const int64_t **columns, int width, const uint8_t *name,
                       const uint8_t *lengths, Py_ssize_t count, uint8_t *digests) noexcept nogil:
    cdef uint8_t message[MESSAGE_ROOM]
    cdef uint8_t *at
    cdef Py_ssize_t i
    cdef int word
    for i in range(count):
        memcpy(message, salt + SALT * i, SALT)
        at = message + SALT
        for word in range(width):
            at = put_word(at, columns[word][i])
        memcpy(at, name, lengths[i])
        name += lengths[i]
        hash_message(message, <int>(at - message) + lengths[i], digests + DIGEST * i)


def entry_hashes(bytes salts not None, words: object, bytes arena not None,
                 bytes lengths not None) -> bytes:
    """Return the SHA-256 of each entry, 32 bytes an entry: of its salt (16 bytes), its words (8
    bytes each, the lowest first) and its member. `words` has a column of int64 for each word.
    Raises ValueError if the columns do not have one length. O(entries)."""
    cdef BufferViews buffers
    cdef const int64_t *columns[WORDS_MOST]
    cdef Py_ssize_t count = PyBytes_GET_SIZE(lengths)
    cdef const uint8_t *salt = <const uint8_t *>PyBytes_AS_STRING(salts)
    cdef const uint8_t *name = <const uint8_t *>PyBytes_AS_STRING(arena)
    cdef const uint8_t *length = <const uint8_t *>PyBytes_AS_STRING(lengths)
    cdef bytes digests = PyBytes_FromStringAndSize(NULL, DIGEST * count)
    cdef uint8_t *digest = <uint8_t *>PyBytes_AS_STRING(digests)
    cdef int width = 0
    check_arena(arena, lengths)
    if PyBytes_GET_SIZE(salts) != SALT * count or len(words) > WORDS_MOST:
        raise ValueError(f"expected {SALT} bytes of salt an entry and up to {WORDS_MOST} words")
    buffers.count = 0
    try:
        for column in words:
            acquire_buffer(&buffers, column, c'q')
            if items(&buffers, width) != count:
                raise ValueError("expected columns of words of one length")
            columns[width] = longs(&buffers, width)
            width += 1
        with nogil:
            hash_entries(salt, columns, width, name, length, count, digest)
        return digests
    finally:
        release_buffers(&buffers)


cdef void hash_names(const uint8_t *key, int key_length, const uint8_t *name,
                     const uint8_t *lengths, Py_ssize_t count, uint64_t *hashes) noexcept nogil:
    cdef uint8_t message[MESSAGE_ROOM]
    cdef uint8_t digest[DIGEST]
    cdef Py_ssize_t i
    cdef int byte
    for i in range(count):
        memcpy(message, key, key_length)
        memcpy(message + key_length, name, lengths[i])
        name += lengths[i]
        hash_message(message, key_length + lengths[i], digest)
        hashes[i] = 0
        for byte in range(8):
            hashes[i] |= <uint64_t>digest[byte] << 8 * byte
        hashes[i] >>= 1


def member_hashes(bytes key not None, bytes arena not None,
                  bytes lengths not None) -> array.array:
    """Return a hash of 63 bits for each member: of the SHA-256 of `key` and the member, the first 8
    bytes without their lowest bit. `key` has at most 64 bytes. O(members)."""
    cdef Py_ssize_t count = PyBytes_GET_SIZE(lengths)
    cdef int key_length = <int>PyBytes_GET_SIZE(key)
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(key)
    cdef const uint8_t *name = <const uint8_t *>PyBytes_AS_STRING(arena)
    cdef const uint8_t *length = <const uint8_t *>PyBytes_AS_STRING(lengths)
    cdef array.array hashes = array.clone(UNSIGNED, count, False)
    cdef uint64_t *first = <uint64_t *>hashes.data.as_ulonglongs
    check_arena(arena, lengths)
    if PyBytes_GET_SIZE(key) > KEY_MOST:
        raise ValueError(f"expected a key of at most {KEY_MOST} bytes, got {len(key)}")
    with nogil:
        hash_names(start, key_length, name, length, count, first)
    return hashes
