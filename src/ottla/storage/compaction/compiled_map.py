# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The map of keys and the copying of records as loops over bytes, for a compiler.

setup.py makes an extension of this file where it can; `sieves` then prefers it, and nothing else
imports it. Slots are those of `VectorSieve`: two words of digest and an offset + 1; there are fewer
than 2**32.
"""

import cython
from cython.cimports.libc.string import memcpy


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _word(high: cython.uint, low: cython.uint) -> cython.ulonglong:
    """Cython takes no larger literals than these halves."""
    return (cython.cast(cython.ulonglong, high) << 32) | low


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _mix(half: cython.ulonglong, factor: cython.ulonglong) -> cython.ulonglong:
    half ^= half >> 32
    half *= factor
    half ^= half >> 29
    return half


@cython.cfunc
@cython.exceptval(check=False)
def _digest(
    data: cython.p_const_uchar,
    size: cython.Py_ssize_t,
    first: cython.pointer(cython.ulonglong),
    second: cython.pointer(cython.ulonglong),
) -> cython.void:
    one: cython.ulonglong = _word(0x9E3779B9, 0x7F4A7C15) ^ cython.cast(cython.ulonglong, size)
    two: cython.ulonglong = _word(0xC2B2AE3D, 0x27D4EB4F) ^ cython.cast(cython.ulonglong, size)
    word: cython.ulonglong
    done: cython.Py_ssize_t = 0
    while done < size:
        word = 0
        memcpy(cython.address(word), data + done, 8 if size - done >= 8 else size - done)
        one = _mix((one ^ word) * _word(0xBF58476D, 0x1CE4E5B9), _word(0x2545F491, 0x4F6CDD1D))
        two = _mix((two ^ word) * _word(0x94D049BB, 0x133111EB), _word(0xD6E8FEB8, 0x6659FD93))
        done += 8
    first[0] = _mix(_mix(one, _word(0x2545F491, 0x4F6CDD1D)), _word(0xBF58476D, 0x1CE4E5B9))
    second[0] = _mix(_mix(two, _word(0xD6E8FEB8, 0x6659FD93)), _word(0x94D049BB, 0x133111EB))


@cython.cfunc
@cython.exceptval(check=False)
def _digest_some(
    data: cython.p_const_uchar,
    key_start: cython.p_longlong,
    key_end: cython.p_longlong,
    count: cython.Py_ssize_t,
    slots: cython.p_ulonglong,
    slot_count: cython.ulonglong,
    ones: cython.p_ulonglong,
    twos: cython.p_ulonglong,
    places: cython.p_ulonglong,
) -> cython.ulonglong:
    """Digests some keys, and looks at all their slots, so that memory brings these all at once."""
    seen: cython.ulonglong = 0
    row: cython.Py_ssize_t
    for row in range(count):
        if key_start[row] < 0:
            places[row] = 0
            continue
        _digest(data + key_start[row], key_end[row] - key_start[row], ones + row, twos + row)
        places[row] = ((ones[row] >> 32) * slot_count) >> 32
    for row in range(count):
        seen ^= slots[3 * places[row] + 2]
    return seen


def put(
    data: cython.const[cython.uchar][::1],
    key_start: cython.longlong[::1],
    key_end: cython.longlong[::1],
    offset: cython.longlong[::1],
    start_offset: cython.longlong,
    slots: cython.ulonglong[:, ::1],
) -> tuple[int, int]:
    """Remembers the offsets of all keys from `start_offset` on; returns how many keys are new.

    Offsets ascend. A key that starts at -1 is null. The second number means nothing.
    """
    raw: cython.p_const_uchar = cython.address(data[0]) if data.shape[0] else cython.NULL
    count: cython.ulonglong = slots.shape[0]
    ones: cython.ulonglong[64]
    twos: cython.ulonglong[64]
    places: cython.ulonglong[64]
    slot: cython.ulonglong
    first: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    number: cython.Py_ssize_t
    some: cython.Py_ssize_t
    added: cython.Py_ssize_t = 0
    seen: cython.ulonglong = 0
    while first < offset.shape[0]:
        some = offset.shape[0] - first if offset.shape[0] - first < 64 else 64
        seen ^= _digest_some(
            raw, cython.address(key_start[first]), cython.address(key_end[first]), some,
            cython.address(slots[0, 0]), count, ones, twos, places,
        )  # fmt: skip
        for number in range(some):
            row = first + number
            if key_start[row] < 0 or offset[row] < start_offset:
                continue
            slot = places[number]
            while slots[slot, 2] != 0 and (
                slots[slot, 0] != ones[number] or slots[slot, 1] != twos[number]
            ):
                slot = slot + 1 if slot + 1 < count else 0
            if slots[slot, 2] == 0:
                slots[slot, 0] = ones[number]
                slots[slot, 1] = twos[number]
                added += 1
            slots[slot, 2] = offset[row] + 1
        first += some
    return added, seen


def get(
    data: cython.const[cython.uchar][::1],
    key_start: cython.longlong[::1],
    key_end: cython.longlong[::1],
    slots: cython.ulonglong[:, ::1],
    found: cython.longlong[::1],
) -> int:
    """The last offset of each key into `found`; -1 for none and for null.

    The number that it returns means nothing.
    """
    raw: cython.p_const_uchar = cython.address(data[0]) if data.shape[0] else cython.NULL
    count: cython.ulonglong = slots.shape[0]
    ones: cython.ulonglong[64]
    twos: cython.ulonglong[64]
    places: cython.ulonglong[64]
    slot: cython.ulonglong
    first: cython.Py_ssize_t = 0
    number: cython.Py_ssize_t
    some: cython.Py_ssize_t
    seen: cython.ulonglong = 0
    while first < found.shape[0]:
        some = found.shape[0] - first if found.shape[0] - first < 64 else 64
        seen ^= _digest_some(
            raw, cython.address(key_start[first]), cython.address(key_end[first]), some,
            cython.address(slots[0, 0]), count, ones, twos, places,
        )  # fmt: skip
        for number in range(some):
            found[first + number] = -1
            if key_start[first + number] < 0:
                continue
            slot = places[number]
            while slots[slot, 2] != 0 and (
                slots[slot, 0] != ones[number] or slots[slot, 1] != twos[number]
            ):
                slot = slot + 1 if slot + 1 < count else 0
            found[first + number] = cython.cast(cython.longlong, slots[slot, 2]) - 1
        first += some
    return seen


@cython.cfunc
@cython.exceptval(check=False)
def _write(
    out: cython.p_uchar, position: cython.Py_ssize_t, value: cython.longlong
) -> cython.Py_ssize_t:
    left: cython.ulonglong = cython.cast(cython.ulonglong, value << 1) ^ cython.cast(
        cython.ulonglong, value >> 63
    )
    while left > 0x7F:
        out[position] = cython.cast(cython.uchar, (left & 0x7F) | 0x80)
        position += 1
        left >>= 7
    out[position] = cython.cast(cython.uchar, left)
    return position + 1


def pack(
    data: cython.const[cython.uchar][::1],
    timestamp_delta: cython.longlong[::1],
    rest: cython.longlong[::1],
    end: cython.longlong[::1],
    rows: cython.longlong[::1],
    shift: cython.longlong,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Writes records one behind the other, with `shift` taken off their timestamp deltas.

    `out` must have room for 21 bytes more a record than their rests take. Returns the bytes
    written.
    """
    raw: cython.p_const_uchar = cython.address(data[0]) if data.shape[0] else cython.NULL
    made: cython.p_uchar = cython.address(out[0]) if out.shape[0] else cython.NULL
    position: cython.Py_ssize_t = 0
    number: cython.Py_ssize_t
    row: cython.Py_ssize_t
    size: cython.Py_ssize_t
    delta: cython.longlong
    delta_size: cython.Py_ssize_t
    scratch: cython.uchar[10]
    for number in range(rows.shape[0]):
        row = rows[number]
        size = end[row] - rest[row]
        delta = timestamp_delta[row] - shift
        delta_size = _write(scratch, 0, delta)
        position = _write(made, position, 1 + delta_size + size)
        made[position] = 0
        position += 1
        memcpy(made + position, scratch, delta_size)
        position += delta_size
        memcpy(made + position, raw + rest[row], size)
        position += size
    return position
