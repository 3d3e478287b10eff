"""The broker's half of logins: the RFCs' examples, and clients that are not who they say."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.principal import Principal
from ottla.base.scram import HASHES, make_credential
from ottla.broker.security.sasl import (
    MAX_TEXT_SIZE,
    Login,
    LoginError,
    PlainServer,
    SaslServer,
    ScramAccount,
)
from ottla.broker.security.scram import ScramServer
from ottla.client.connecting.scram import ScramClient

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
FINAL = (
    f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
).encode()


def find(name: str, is_token: bool) -> ScramAccount:
    is_known = (name, is_token) == ("user", False)
    return ScramAccount(
        login=Login(principal=Principal("User", "user")) if is_known else None,
        credential=make_credential("SCRAM-SHA-256", b"pencil", SALT, 4096),
    )


def server(nonce: str = SERVER_NONCE) -> ScramServer:
    return ScramServer("SCRAM-SHA-256", find, nonce)


def test_the_example_of_rfc_7677_is_answered_as_there() -> None:
    ours = server()
    assert ours.answer(FIRST) == (
        f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    )
    assert ours.login is None
    assert ours.answer(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert ours.login == Login(principal=Principal("User", "user"))


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize(
    ("name", "is_token"), [("ana, of =tea", False), ("ａｎａ", False), ("token-7", True)]
)
def test_client_and_server_agree_on_names_with_commas_and_of_any_letters_and_on_tokens(
    mechanism: str, name: str, is_token: bool
) -> None:
    asked: list[tuple[str, bool]] = []

    def find_any(wanted: str, wants_token: bool) -> ScramAccount:
        asked.append((wanted, wants_token))
        credential = make_credential(mechanism, "pöt Ⅸ".encode(), SALT, 4096)
        return ScramAccount(login=Login(principal=Principal("User", name)), credential=credential)

    ours = ScramServer(mechanism, find_any, "server")
    client = ScramClient(mechanism, name, "pöt Ⅸ", "client", is_token=is_token)
    client.check(ours.answer(client.prove(ours.answer(client.first()))))
    assert asked == [(name, is_token)] * 2
    assert ours.login is not None


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize(
    ("header", "extension", "nonces"),
    [
        ("n,,", "", "client+server"),
        ("y,,", "", "client+server"),
        ("n,a=ana,", "", "client+server"),
        ("n,,", ",tokenauth=true", "client+server"),
        ("n,,", ",tokenauth=false,x=1", "client+server"),
        ("n,,", "", "client+client+server"),
    ],
)
def test_what_other_clients_send_is_checked_and_proven_by_the_formulas_of_the_rfc(
    mechanism: str, header: str, extension: str, nonces: str
) -> None:
    """Also a short salt, which scramp alone refuses. The nonce of librdkafka is as before 2.6."""
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, b"pencil", b"salt", 5000)
    client_key, server_key = (
        hmac.digest(salted, one, name) for one in (b"Client Key", b"Server Key")
    )
    credential = make_credential(mechanism, b"pencil", b"salt", 5000)
    account = ScramAccount(login=Login(principal=Principal("User", "ana")), credential=credential)
    ours = ScramServer(mechanism, lambda _name, _is_token: account, "+server")
    first = f"n=ana,r=client{extension}"
    challenge = ours.answer(f"{header}{first}".encode()).decode()
    assert challenge == "r=client+server,s=c2FsdA==,i=5000"
    final = f"c={base64.b64encode(header.encode()).decode()},r={nonces}"
    signed = f"{first},{challenge},{final}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    answer = ours.answer(f"{final},p={base64.b64encode(proof).decode()}".encode())
    assert answer == b"v=" + base64.b64encode(hmac.digest(server_key, signed, name))
    assert ours.login is account.login


@pytest.mark.parametrize(
    "texts",
    [
        [FIRST.replace(b"n=user", b"n=us=er")],
        [b"p=tls-unique" + FIRST[1:]],
        [FIRST.replace(b"n,,", b"n,a=other,")],
        [b"n,,r=abc,n=user"],
        [b"n,,n=user,r="],
        [b"n,,n=user"],
        [b""],
        [b"\xff\xff"],
        [FIRST, FINAL.replace(b"r=rO", b"r=xx")],
        [FIRST, FINAL.replace(b"k0,p=", b"k1,p=")],
        [FIRST, FINAL.replace(b"c=biws", b"c=eSws")],
        [FIRST, FINAL.replace(b"p=dH", b"p=dI")],
        [FIRST, FINAL.replace(b"p=dHzb", b"p=")],
        [FIRST, FINAL.rpartition(b",p=")[0]],
        [FIRST, b"\xff"],
        [b"n,,n=user,r=" + b"x" * MAX_TEXT_SIZE],
        [b"n,,n=user,r=abc" + b"".join(b",%d=" % number for number in range(5000))],
        [FIRST, FIRST],
        [FIRST, FINAL, FINAL],
    ],
)
def test_a_login_by_scram_that_is_not_right_is_refused(texts: list[bytes]) -> None:
    ours = server()
    *before, last = texts
    for text in before:
        ours.answer(text)
    with pytest.raises(LoginError, match="Authentication failed"):
        ours.answer(last)


def test_a_name_that_nobody_has_is_refused_after_its_proof_however_right() -> None:
    ours = server()
    client = ScramClient("SCRAM-SHA-256", "nobody", "pencil", CLIENT_NONCE)
    with pytest.raises(LoginError, match="Invalid username or password"):
        ours.answer(client.prove(ours.answer(client.first())))
    assert ours.login is None


def test_an_answer_that_was_overheard_is_worth_nothing_in_another_login() -> None:
    ours = server(nonce="another")
    ours.answer(FIRST)
    with pytest.raises(LoginError):
        ours.answer(FINAL)


def plain() -> PlainServer:
    return PlainServer({"ana": "pot & kettle"})


@pytest.mark.parametrize("authorization_id", ["", "ana"])
def test_plain_takes_name_and_password(authorization_id: str) -> None:
    ours = plain()
    assert ours.answer(f"{authorization_id}\0ana\0pot & kettle".encode()) == b""
    assert ours.login == Login(principal=Principal("User", "ana"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\0ana\0kettle", "Invalid username or password"),
        (b"\0bob\0", "password not specified"),
        (b"\0bob\0pot", "Invalid username or password"),
        (b"\0\0pot & kettle", "username not specified"),
        (b"bob\0ana\0pot & kettle", "authorization id that is different"),
        (b"ana\0pot & kettle", "expected 3 tokens"),
        (b"\0ana\0pot & kettle\0", "expected 3 tokens"),
        (b"\xff\0\xff\0\xff", "expected 3 tokens"),
        (b"", "expected 3 tokens"),
    ],
)
def test_a_login_by_plain_that_is_not_right_is_refused(text: bytes, words: str) -> None:
    ours = plain()
    with pytest.raises(LoginError, match=words):
        ours.answer(text)
    assert ours.login is None


@given(texts=st.lists(st.binary(max_size=60), max_size=4), is_plain=st.booleans())
def test_garbage_is_refused_or_answered_and_never_lets_anyone_in(
    texts: list[bytes], is_plain: bool
) -> None:
    ours: SaslServer = plain() if is_plain else server()
    try:
        for text in texts:
            ours.answer(text)
    except LoginError:
        pass
    assert ours.login is None
