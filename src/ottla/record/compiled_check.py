# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The check of a batch's records as one loop over bytes, for a compiler: see `records_check`, which
names the numbers that stand for reasons and flags.

setup.py makes an extension of this file where it can; `records_check` then prefers it, and nothing
else imports it. Without a compiler nothing is missing but speed.
"""

import cython
from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)

Header = cython.struct(
    count=cython.longlong,
    base_timestamp=cython.longlong,
    max_timestamp=cython.longlong,
    earliest=cython.longlong,
    latest=cython.longlong,
)

Walked = cython.struct(
    reason=cython.Py_ssize_t,
    index=cython.longlong,
    flags=cython.int,
    largest=cython.longlong,
)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _read_any(
    data: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    max_size: cython.int,
    value: cython.pointer(cython.longlong),
) -> cython.Py_ssize_t:
    """Returns the position behind a varint, or a negative reason."""
    shift: cython.int = 0
    found: cython.ulonglong = 0
    byte: cython.uchar
    last: cython.uchar = 0x0F if max_size == 5 else 0x01
    while position < end:
        byte = data[position]
        position += 1
        found |= cython.cast(cython.ulonglong, byte & 0x7F) << shift
        shift += 7
        if shift == 7 * max_size and byte > last:
            return -2
        if byte < 0x80:
            value[0] = cython.cast(cython.longlong, found >> 1) ^ -cython.cast(
                cython.longlong, found & 1
            )
            return position
    return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _read(
    data: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    max_size: cython.int,
    value: cython.pointer(cython.longlong),
) -> cython.Py_ssize_t:
    """`_read_any`, with what most varints need in place."""
    first: cython.ulonglong
    if position < end:
        first = data[position]
        if first < 0x80:
            value[0] = cython.cast(cython.longlong, first >> 1) ^ -cython.cast(
                cython.longlong, first & 1
            )
            return position + 1
    return _read_any(data, position, end, max_size, value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _skip(
    data: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    least: cython.int,
    size: cython.pointer(cython.longlong),
) -> cython.Py_ssize_t:
    """Returns the position behind a field, or a negative reason; `least` is its smallest size."""
    position = _read(data, position, end, 5, size)
    if position < 0:
        return position
    if size[0] < least:
        return -4
    if size[0] > end - position:
        return -3
    if size[0] > 0:
        position += size[0]
    return position


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_text(data: cython.p_const_uchar, size: cython.longlong) -> cython.bint:
    """Whether these bytes are UTF-8, as Python decodes it."""
    index: cython.longlong = 0
    more: cython.int
    byte: cython.uchar
    low: cython.uchar
    high: cython.uchar
    while index < size:
        byte = data[index]
        index += 1
        if byte < 0x80:
            continue
        low = 0x80
        high = 0xBF
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        elif 0xF0 <= byte <= 0xF4:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        else:
            return False
        if more > size - index or data[index] < low or data[index] > high:
            return False
        index += 1
        more -= 1
        while more > 0:
            if data[index] & 0xC0 != 0x80:
                return False
            index += 1
            more -= 1
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _skip_headers(
    data: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    count: cython.longlong = 0
    size: cython.longlong = 0
    position = _read(data, position, end, 5, cython.address(count))
    if position < 0:
        return position
    if count < 0:
        return -4
    while count > 0:
        position = _skip(data, position, end, 0, cython.address(size))
        if position < 0:
            return position
        if not _is_text(data + position - size, size):
            return -9
        position = _skip(data, position, end, -1, cython.address(size))
        if position < 0:
            return position
        count -= 1
    return position


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _skip_fields(
    data: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    flags: cython.p_int,
) -> cython.Py_ssize_t:
    """Key, value and headers: returns the record's end, or a negative reason."""
    size: cython.longlong = 0
    position = _skip(data, position, end, -1, cython.address(size))
    if position < 0:
        return position
    if size < 0:
        flags[0] |= 1
    position = _skip(data, position, end, -1, cython.address(size))
    if position < 0:
        return position
    if position + 1 == end and data[position] == 0:
        return end
    position = _skip_headers(data, position, end)
    if position >= 0 and position != end:
        return -5
    return position


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _walk(
    data: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    payload_end: cython.Py_ssize_t,
    header: cython.pointer(Header),
    walked: cython.pointer(Walked),
) -> cython.void:
    count: cython.longlong = header[0].count
    base: cython.longlong = header[0].base_timestamp
    earliest: cython.longlong = header[0].earliest
    latest: cython.longlong = header[0].latest
    index: cython.longlong = 0
    largest: cython.longlong = -1
    flags: cython.int = 0
    value: cython.longlong = 0
    end: cython.Py_ssize_t
    longest: cython.longlong = 0x7FFFFFFFFFFFFFFF
    walked[0].reason = 0
    while index < count:
        walked[0].index = index
        position = _read(data, position, payload_end, 5, cython.address(value))
        if position < 0:
            walked[0].reason = position
            return
        if value < 0:
            walked[0].reason = -4
            return
        if value > payload_end - position:
            walked[0].reason = -3
            return
        end = position + value
        # The attributes say nothing; kafka-python reads them as a varint.
        if position < end and data[position] > 0x7F:
            walked[0].reason = -2
            return
        position = _read(data, position + 1, end, 10, cython.address(value))
        if position < 0:
            walked[0].reason = position
            return
        if (base > 0 and value > longest - base) or (base < 0 and value < -longest - 1 - base):
            walked[0].reason = -7
            return
        value += base
        if value > largest:
            largest = value
        if (value < earliest or value > latest) and value != -1:
            flags |= 2
        position = _read(data, position, end, 5, cython.address(value))
        if position < 0:
            walked[0].reason = position
            return
        if value != index:
            walked[0].reason = -6
            return
        position = _skip_fields(data, position, end, cython.address(flags))
        if position < 0:
            walked[0].reason = position
            return
        index += 1
    walked[0].index = index
    if position != payload_end:
        walked[0].reason = -8
    walked[0].flags = flags
    walked[0].largest = largest


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _big_endian(data: cython.p_const_uchar, size: cython.int) -> cython.longlong:
    found: cython.ulonglong = 0
    index: cython.int
    for index in range(size):
        found = found << 8 | data[index]
    return cython.cast(cython.longlong, found)


@cython.cfunc
@cython.exceptval(check=False)
def _walk_at(
    data: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    header: cython.pointer(Header),
    walked: cython.pointer(Walked),
) -> cython.void:
    """Lets go of the interpreter where that is worth it."""
    if end - position < 65536:
        _walk(data, position, end, header, walked)
    else:
        with cython.nogil:
            _walk(data, position, end, header, walked)


def check_records(
    buffer: object,
    position: cython.Py_ssize_t,
    unpacked: object,
    earliest_ms: cython.longlong,
    latest_ms: cython.longlong,
) -> object:
    """What `records_check.check_records` returns."""
    view: cython.Py_buffer
    plain: cython.Py_buffer
    walked: Walked
    header: Header
    raw: cython.p_const_uchar
    size: cython.longlong
    PyObject_GetBuffer(buffer, cython.address(view), PyBUF_SIMPLE)
    raw = cython.cast(cython.p_const_uchar, view.buf) + position
    size = 0
    if 0 <= position <= view.len - 61:
        size = _big_endian(raw + 8, 4) + 12
    if size < 61 or size > view.len - position:
        PyBuffer_Release(cython.address(view))
        raise IndexError("the batch is not wholly in the buffer")
    header.base_timestamp = _big_endian(raw + 27, 8)
    header.max_timestamp = _big_endian(raw + 35, 8)
    header.count = _big_endian(raw + 57, 4)
    header.earliest = earliest_ms
    header.latest = latest_ms
    if unpacked is None:
        _walk_at(raw, 61, size, cython.address(header), cython.address(walked))
        PyBuffer_Release(cython.address(view))
    else:
        PyBuffer_Release(cython.address(view))
        PyObject_GetBuffer(unpacked, cython.address(plain), PyBUF_SIMPLE)
        raw = cython.cast(cython.p_const_uchar, plain.buf)
        _walk_at(raw, 0, plain.len, cython.address(header), cython.address(walked))
        PyBuffer_Release(cython.address(plain))
    if walked.reason:
        return (walked.reason, walked.index)
    if walked.largest == header.max_timestamp:
        return walked.flags
    return (walked.flags | 4, walked.largest)
