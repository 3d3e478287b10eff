import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.codec import varint

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(INT32)
def test_a_varint_comes_back(value: int) -> None:
    out = bytearray(b"x")
    varint.write_varint(out, value)
    assert varint.read_varint(out, 1) == (value, len(out))


@given(INT64)
def test_a_varlong_comes_back(value: int) -> None:
    out = bytearray()
    varint.write_varlong(out, value)
    assert varint.read_varlong(bytes(out) + b"tail", 0) == (value, len(out))


@given(st.integers(0, 2**32 - 1))
def test_an_unsigned_varint_comes_back(value: int) -> None:
    out = bytearray()
    varint.write_unsigned_varint(out, value)
    assert varint.read_unsigned_varint(memoryview(out), 0) == (value, len(out))


@pytest.mark.parametrize(("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (300, "d804")])
def test_varints_are_zig_zag_and_lowest_bits_first(value: int, encoded: str) -> None:
    out = bytearray()
    varint.write_varint(out, value)
    assert out.hex() == encoded


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff\xff\x01"])
def test_a_varint_cut_short_or_too_long_is_refused(data: bytes) -> None:
    with pytest.raises(varint.VarintError):
        varint.read_varint(data, 0)


@given(st.binary(max_size=12))
def test_any_bytes_are_a_varlong_or_our_error(data: bytes) -> None:
    try:
        value, position = varint.read_varlong(data, 0)
    except varint.VarintError:
        return
    assert position <= 10
    assert -(2**63) <= value < 2**63
