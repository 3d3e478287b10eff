# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The scan of v2 records as one loop over bytes, for a compiler.

setup.py makes an extension of this file where it can; `scan` then prefers it, and nothing else
imports it. Without a compiler nothing is missing but speed. (Run as it is, with Cython at hand, it
does the same slowly, which a test uses.)
"""

import cython

NOTHING: cython.Py_ssize_t = -1

CUT_SHORT = -1
DISAGREES = -2
TOO_LONG = -3

COLUMN_COUNT = 9
"""Rows of `scan_records`' result, in this order."""
TIMESTAMP_DELTA = 0
REST = 1
OFFSET_DELTA = 2
KEY_START = 3
KEY_END = 4
VALUE_START = 5
VALUE_END = 6
HEADERS = 7
END = 8


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _zig_zag(value: cython.ulonglong) -> cython.longlong:
    return cython.cast(cython.longlong, value >> 1) ^ -cython.cast(cython.longlong, value & 1)


@cython.cfunc
@cython.exceptval(check=False)
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
    while position < end:
        byte = data[position]
        position += 1
        found |= cython.cast(cython.ulonglong, byte & 0x7F) << shift
        if byte < 0x80:
            if max_size == 5:
                found &= 0xFFFFFFFF
            value[0] = _zig_zag(found)
            return position
        shift += 7
        if shift >= 7 * max_size:
            return -3
    return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read(
    data: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    max_size: cython.int,
    value: cython.pointer(cython.longlong),
) -> cython.Py_ssize_t:
    """`_read_any`, with what most varints need in place."""
    first: cython.ulonglong
    second: cython.ulonglong
    if position + 2 <= end:
        first = data[position]
        if first < 0x80:
            value[0] = _zig_zag(first)
            return position + 1
        second = data[position + 1]
        if second < 0x80:
            value[0] = _zig_zag((first & 0x7F) | (second << 7))
            return position + 2
    return _read_any(data, position, end, max_size, value)


def scan_records(
    data: cython.const[cython.uchar][::1],
    starts: cython.longlong[::1],
    ends: cython.longlong[::1],
    counts: cython.longlong[::1],
    columns: cython.longlong[:, ::1],
) -> cython.Py_ssize_t:
    """Fills `columns` (COLUMN_COUNT by all records); a null field has a start of -1.

    0, or the negative number of what is wrong.
    """
    raw: cython.p_const_uchar = cython.address(data[0]) if data.shape[0] else cython.NULL
    row: cython.Py_ssize_t = 0
    batch: cython.Py_ssize_t
    position: cython.Py_ssize_t
    behind: cython.Py_ssize_t
    end: cython.Py_ssize_t
    payload_end: cython.Py_ssize_t
    value: cython.longlong = 0
    left: cython.longlong
    for batch in range(starts.shape[0]):
        position = starts[batch]
        payload_end = ends[batch]
        left = counts[batch]
        while left > 0:
            behind = _read(raw, position, payload_end, 5, cython.address(value))
            if behind < 0:
                return behind
            if value < 0:
                return -2
            if value > payload_end - behind:
                return -1
            end = behind + value
            # The attributes say nothing.
            behind = _read(raw, behind + 1, end, 10, cython.address(value))
            if behind < 0:
                return behind
            columns[0, row] = value
            columns[1, row] = behind
            behind = _read(raw, behind, end, 5, cython.address(value))
            if behind < 0:
                return behind
            columns[2, row] = value
            behind = _read(raw, behind, end, 5, cython.address(value))
            if behind < 0:
                return behind
            if value > end - behind:
                return -1
            columns[3, row] = behind if value >= 0 else -1
            if value > 0:
                behind += value
            columns[4, row] = behind
            behind = _read(raw, behind, end, 5, cython.address(value))
            if behind < 0:
                return behind
            if value > end - behind:
                return -1
            columns[5, row] = behind if value >= 0 else -1
            if value > 0:
                behind += value
            columns[6, row] = behind
            columns[7, row] = behind
            columns[8, row] = end
            position = end
            row += 1
            left -= 1
        if position != payload_end:
            return -2
    return 0
