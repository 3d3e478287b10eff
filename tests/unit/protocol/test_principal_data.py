import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.base.principal import ANONYMOUS, Principal
from ottla.protocol.principal_data import decode_principal, encode_principal

RECORDED = bytes.fromhex("0000 05") + b"User" + bytes.fromhex("0a") + b"ANONYMOUS" + bytes(2)
"""What a broker of Kafka 3.9 has sent in an Envelope."""


def test_a_principal_is_written_as_kafkas_brokers_write_it() -> None:
    assert encode_principal(ANONYMOUS, is_by_token=False) == RECORDED
    assert decode_principal(RECORDED) == (ANONYMOUS, False)


@given(st.text(max_size=50), st.text(max_size=300), st.booleans())
def test_a_principal_is_read_as_it_was_written(kind: str, name: str, is_by_token: bool) -> None:
    value = encode_principal(Principal(kind, name), is_by_token=is_by_token)

    assert decode_principal(value) == (Principal(kind, name), is_by_token)


@given(st.binary(max_size=40))
def test_anything_else_is_an_error_of_the_protocol(value: bytes) -> None:
    try:
        decode_principal(value)
    except ProtocolError:
        return
    assert value[:2] == bytes(2)


@pytest.mark.parametrize("size", range(len(RECORDED)))
def test_a_principal_that_is_cut_short_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError):
        decode_principal(RECORDED[:size])


def test_a_later_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="no version 1"):
        decode_principal(b"\0\1" + RECORDED[2:])
