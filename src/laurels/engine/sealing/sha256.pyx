# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""SHA-256 of short messages (FIPS 180-4), for loops that do not have the interpreter lock.

`hashlib` is used everywhere else. Here it would create two Python objects for each of millions of
entries, with the interpreter lock.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef uint32_t[64] ROUND = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
]
cdef uint32_t[8] FIRST = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
]


cdef inline uint32_t rotated(uint32_t word, int bits) noexcept nogil:
    """Rotate a word to the right."""
    return word >> bits | word << 32 - bits


cdef inline uint32_t big_endian(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline void do_round(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                          uint32_t g, uint32_t *h, uint32_t added) noexcept nogil:
    """Do a round, which changes two of the eight variables. The caller passes them in another order
    each time, in place of moving their values."""
    cdef uint32_t first = h[0] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + added
    first += g ^ e & (f ^ g)
    d[0] += first
    h[0] = first + (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + (a & b | c & (a | b))


cdef void compress(uint32_t *state, const uint8_t *block) noexcept nogil:
    """Add a block of 64 bytes to the state of a hash."""
    cdef uint32_t w[64]
    cdef uint32_t a = state[0], b = state[1], c = state[2], d = state[3]
    cdef uint32_t e = state[4], f = state[5], g = state[6], h = state[7]
    cdef uint32_t first, second
    cdef int i
    for i in range(16):
        w[i] = big_endian(block + 4 * i)
    for i in range(16, 64):
        first = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3
        second = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10
        w[i] = w[i - 16] + first + w[i - 7] + second
    for i in range(0, 64, 8):
        do_round(a, b, c, &d, e, f, g, &h, ROUND[i] + w[i])
        do_round(h, a, b, &c, d, e, f, &g, ROUND[i + 1] + w[i + 1])
        do_round(g, h, a, &b, c, d, e, &f, ROUND[i + 2] + w[i + 2])
        do_round(f, g, h, &a, b, c, d, &e, ROUND[i + 3] + w[i + 3])
        do_round(e, f, g, &h, a, b, c, &d, ROUND[i + 4] + w[i + 4])
        do_round(d, e, f, &g, h, a, b, &c, ROUND[i + 5] + w[i + 5])
        do_round(c, d, e, &f, g, h, a, &b, ROUND[i + 6] + w[i + 6])
        do_round(b, c, d, &e, f, g, h, &a, ROUND[i + 7] + w[i + 7])
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e
    state[5] += f
    state[6] += g
    state[7] += h


cdef void hash_message(uint8_t *message, int length, uint8_t *digest) noexcept nogil:
    """Hash a message of at most MESSAGE_MOST bytes. Its buffer has MESSAGE_ROOM bytes, and the
    padding is written behind the message."""
    cdef int padded = (length + 72) // 64 * 64
    cdef uint64_t bits = <uint64_t>length * 8
    cdef uint32_t state[8]
    cdef int i
    memset(message + length, 0, padded - length)
    message[length] = 0x80
    for i in range(8):
        message[padded - 1 - i] = <uint8_t>(bits >> 8 * i)
    memcpy(state, FIRST, sizeof(state))
    for i in range(0, padded, 64):
        compress(state, message + i)
    for i in range(DIGEST):
        digest[i] = <uint8_t>(state[i // 4] >> 24 - i % 4 * 8)


def sha256(bytes message not None) -> bytes:
    """Return the hash of a message of at most MESSAGE_MOST bytes. Raises ValueError for a longer
    one."""
    cdef uint8_t padded[MESSAGE_ROOM]
    cdef bytes digest = PyBytes_FromStringAndSize(NULL, DIGEST)
    if len(message) > MESSAGE_MOST:
        raise ValueError(f"expected at most {MESSAGE_MOST} bytes, got {len(message)}")
    memcpy(padded, PyBytes_AS_STRING(message), len(message))
    hash_message(padded, <int>len(message), <uint8_t *>PyBytes_AS_STRING(digest))
    return digest
