# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Columns passed from and to Python: read as buffers, returned as arrays."""
from cpython cimport array
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.stdint cimport int64_t, uint32_t

cdef enum:
    BUFFERS_MOST = 160

cdef struct BufferViews:        # the buffers of a call, to be released at its end
    Py_buffer views[BUFFERS_MOST]
    int count

cdef inline bint fits_kind(const char *form, Py_ssize_t itemsize, char kind) noexcept:
    """Return whether a buffer has items of a kind: q int64, I uint32, i int32, B bytes."""
    cdef char code = c'B' if form == NULL else form[0]
    if kind == c'q':
        return itemsize == 8 and (code == c'q' or code == c'l')
    if kind == c'I':
        return itemsize == 4 and (code == c'I' or code == c'L')
    if kind == c'i':
        return itemsize == 4 and (code == c'i' or code == c'l')
    return itemsize == 1 and (code == c'B' or code == c'b' or code == c'c')

cdef inline int acquire_buffer(BufferViews *buffers, object source, char kind,
                               bint writable=False) except -1:
    """Acquire a contiguous buffer until `release_buffers`. Raises TypeError for items of another
    kind."""
    cdef Py_buffer *view = &buffers.views[buffers.count]
    if buffers.count == BUFFERS_MOST:
        raise ValueError("too many columns")
    PyObject_GetBuffer(source, view, PyBUF_ND | PyBUF_FORMAT | (PyBUF_WRITABLE if writable else 0))
    buffers.count += 1
    if not fits_kind(view.format, view.itemsize, kind):
        raise TypeError(f"expected a buffer of items of format {chr(kind)!r}")
    return 0

cdef inline void release_buffers(BufferViews *buffers) noexcept:
    while buffers.count > 0:
        buffers.count -= 1
        PyBuffer_Release(&buffers.views[buffers.count])

cdef inline Py_ssize_t items(BufferViews *buffers, int which) noexcept nogil:
    return buffers.views[which].len // buffers.views[which].itemsize

cdef inline const uint32_t *uints(BufferViews *buffers, int which) noexcept nogil:
    return <const uint32_t *>buffers.views[which].buf

cdef inline const int64_t *longs(BufferViews *buffers, int which) noexcept nogil:
    return <const int64_t *>buffers.views[which].buf
