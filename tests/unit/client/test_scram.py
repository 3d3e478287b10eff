"""SCRAM's client against RFC 7677's example, and against servers that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.client.connecting.scram import ScramClient

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
PROOF = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVERS = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_example_of_the_rfc_is_answered_as_there() -> None:
    ours = client()
    assert ours.first() == b"n,,n=user,r=" + NONCE.encode()
    assert ours.prove(CHALLENGE) == PROOF
    ours.check(SERVERS)


def test_a_password_is_not_normalized_since_kafka_stores_it_as_it_is() -> None:
    clients = [ScramClient("SCRAM-SHA-256", "user", one, NONCE) for one in ("Ⅸ", "IX")]
    proofs = [one.prove(CHALLENGE) for one in clients]
    assert proofs[0] != proofs[1]


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (CHALLENGE.replace(b"r=rO", b"r=xx"), "nonce doesn't match"),
        (b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce must be longer"),
        (CHALLENGE.replace(b"i=4096", b"i=1"), "must not be < 4096"),
        (CHALLENGE.replace(b"i=4096", b"i=1000001"), "asks for 1000001 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=99999999"), "must not be >"),
        (CHALLENGE.replace(b"i=4096", b"i=" + b"9" * 5000), "count is not valid"),
        (CHALLENGE.replace(b"s=W22", b"s=?"), "base 64"),
        (CHALLENGE.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s=c2FsdA=="), "at least 12 bytes"),
        (b"e=unknown-user", "error: unknown-user"),
        (b"\xff", "is not text"),
    ],
)
def test_a_strange_challenge_is_refused(challenge: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        client().prove(challenge)


@pytest.mark.parametrize(
    ("final", "words"),
    [
        (SERVERS.replace(b"6rri", b"7rri"), "signature doesn't match: other-error"),
        (b"v=", "at least one character"),
        (b"", "Malformed server final message"),
        (b"e=invalid-proof", "error: invalid-proof"),
    ],
)
def test_a_server_that_cannot_prove_itself_is_refused(final: bytes, words: str) -> None:
    ours = client()
    ours.prove(CHALLENGE)
    with pytest.raises(ProtocolError, match=words):
        ours.check(final)


def test_no_proof_is_one_before_there_was_a_challenge() -> None:
    with pytest.raises(ProtocolError, match="not this method"):
        client().check(SERVERS)


@given(st.binary(max_size=200))
def test_garbage_is_our_error_only(garbage: bytes) -> None:
    ours = client()
    for act in (ours.prove, ours.check):
        with pytest.raises(ProtocolError):
            act(garbage)
