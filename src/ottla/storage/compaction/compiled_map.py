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
    keys: cython.longlong[:, ::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    slots: cython.ulonglong[:, ::1],
    found: cython.p_ulonglong,
) -> cython.ulonglong:
    """Two words of digest and the slot to begin at, for each of some keys.

    All their slots are looked at, so that memory brings them at once; that is what the result is
    for.
    """
    seen: cython.ulonglong = 0
    slot_count: cython.ulonglong = slots.shape[0]
    number: cython.Py_ssize_t
    start: cython.longlong
    for number in range(count):
        start = keys[0, first + number]
        found[3 * number + 2] = 0
        if start >= 0:
            _digest(
                data + start,
                keys[1, first + number] - start,
                found + 3 * number,
                found + 3 * number + 1,
            )
            found[3 * number + 2] = ((found[3 * number] >> 32) * slot_count) >> 32
    for number in range(count):
        seen ^= slots[found[3 * number + 2], 2]
    return seen


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _slot_of(found: cython.p_ulonglong, slots: cython.ulonglong[:, ::1]) -> cython.ulonglong:
    """Where a key is, or would go."""
    slot: cython.ulonglong = found[2]
    count: cython.ulonglong = slots.shape[0]
    while slots[slot, 2] != 0 and (slots[slot, 0] != found[0] or slots[slot, 1] != found[1]):
        slot = slot + 1 if slot + 1 < count else 0
    return slot


def put(
    data: cython.const[cython.uchar][::1],
    keys: cython.longlong[:, ::1],
    offset: cython.longlong[::1],
    start_offset: cython.longlong,
    slots: cython.ulonglong[:, ::1],
) -> tuple[int, int]:
    """Remembers the offsets of all keys from `start_offset` on; returns how many keys are new.

    `keys` are starts and ends; one that starts at -1 is null. Offsets ascend. The second number
    means nothing.
    """
    raw: cython.p_const_uchar = cython.address(data[0]) if data.shape[0] else cython.NULL
    found: cython.ulonglong[192]
    slot: cython.ulonglong
    first: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    number: cython.Py_ssize_t
    some: cython.Py_ssize_t
    added: cython.Py_ssize_t = 0
    seen: cython.ulonglong = 0
    while first < offset.shape[0]:
        some = offset.shape[0] - first if offset.shape[0] - first < 64 else 64
        seen ^= _digest_some(raw, keys, first, some, slots, found)
        for number in range(some):
            row = first + number
            if keys[0, row] < 0 or offset[row] < start_offset:
                continue
            slot = _slot_of(found + 3 * number, slots)
            if slots[slot, 2] == 0:
                slots[slot, 0] = found[3 * number]
                slots[slot, 1] = found[3 * number + 1]
                added += 1
            slots[slot, 2] = offset[row] + 1
        first += some
    return added, seen


def get(
    data: cython.const[cython.uchar][::1],
    keys: cython.longlong[:, ::1],
    slots: cython.ulonglong[:, ::1],
    last: cython.longlong[::1],
) -> int:
    """The last offset of each key into `last`; -1 for none and for null.

    The number that it returns means nothing.
    """
    raw: cython.p_const_uchar = cython.address(data[0]) if data.shape[0] else cython.NULL
    found: cython.ulonglong[192]
    first: cython.Py_ssize_t = 0
    number: cython.Py_ssize_t
    some: cython.Py_ssize_t
    seen: cython.ulonglong = 0
    while first < last.shape[0]:
        some = last.shape[0] - first if last.shape[0] - first < 64 else 64
        seen ^= _digest_some(raw, keys, first, some, slots, found)
        for number in range(some):
            last[first + number] = -1
            if keys[0, first + number] >= 0:
                last[first + number] = (
                    cython.cast(cython.longlong, slots[_slot_of(found + 3 * number, slots), 2]) - 1
                )
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
    places: cython.longlong[:, ::1],
    rows: cython.longlong[::1],
    shift: cython.longlong,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Writes records one behind the other, with `shift` taken off their timestamp deltas.

    `places` are timestamp delta, start of the rest and end of each. `out` must have room for 21
    bytes more a record than their rests take. Returns the bytes written.
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
        size = places[2, row] - places[1, row]
        delta = places[0, row] - shift
        delta_size = _write(scratch, 0, delta)
        position = _write(made, position, 1 + delta_size + size)
        made[position] = 0
        position += 1
        memcpy(made + position, scratch, delta_size)
        position += delta_size
        memcpy(made + position, raw + places[1, row], size)
        position += size
    return position
