"""SCRAM's client against RFC 7677's example, and against servers that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.client.scram import ScramClient

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
        (CHALLENGE.replace(b"r=rO", b"r=xx"), "nonce does not begin with the client's"),
        (b"r=" + NONCE.encode() + b",s=AAAA,i=4096", "nonce does not begin with the client's"),
        (CHALLENGE.replace(b"i=4096", b"i=1"), "asks for 1 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=9999999"), "asks for 9999999 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=" + b"9" * 5000), "asks for 9999999999 iterations"),
        (CHALLENGE.replace(b"s=W22", b"s=?"), "not in base64"),
        (b"\xff", "is no text"),
    ],
)
def test_a_strange_challenge_is_refused(challenge: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        client().prove(challenge)


@pytest.mark.parametrize(
    ("final", "words"),
    [
        (SERVERS.replace(b"6rri", b"7rri"), "does not know the password either"),
        (b"v=", "does not know the password either"),
        (b"", "each once"),
        (b"e=invalid-proof", "the server says invalid-proof"),
    ],
)
def test_a_server_that_cannot_prove_itself_is_refused(final: bytes, words: str) -> None:
    ours = client()
    ours.prove(CHALLENGE)
    with pytest.raises(ProtocolError, match=words):
        ours.check(final)


def test_no_proof_is_one_before_there_was_a_challenge() -> None:
    with pytest.raises(ProtocolError, match="does not know the password"):
        client().check(b"v=")


@given(st.binary(max_size=200))
def test_garbage_is_our_error_only(garbage: bytes) -> None:
    ours = client()
    for act in (ours.prove, ours.check):
        with pytest.raises(ProtocolError):
            act(garbage)
