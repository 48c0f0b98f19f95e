# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint8_t

cdef enum:
    DIGEST = 32                 # the bytes of a hash
    MESSAGE_MOST = 503          # the most bytes of a message
    MESSAGE_ROOM = 512          # a message with its padding

cdef void hash_message(uint8_t *message, int length, uint8_t *digest) noexcept nogil
