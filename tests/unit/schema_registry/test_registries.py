"""Where schemas lie: at a URL as Confluent's API has it, or in a directory."""

import base64
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ottla.base.errors import UserError
from ottla.schema_registry.directory import DirectoryRegistry
from ottla.schema_registry.framing import (
    KEY_HEADER,
    PREFIX,
    VALUE_HEADER,
    framed,
    prefixed_id,
    schema_header,
)
from ottla.schema_registry.http import HttpRegistry
from ottla.schema_registry.registry import (
    PROTOBUF,
    RegisteredSchema,
    RegistryLogin,
    UnknownSchemaError,
    parse_login,
)
from tests.support.registry_answers import Answers, listening

INT = '"int"'
GUID = "89791762-2336-4186-9674-299b90a802e2"


class Served(Answers):
    """With its own lists for each test."""


@pytest.fixture
def answers() -> Iterator[tuple[str, type[Answers]]]:
    Served.paths, Served.asked, Served.wants = {}, [], ""
    with listening(Served) as url:
        yield url, Served


def test_a_schema_is_asked_for_once(answers: tuple[str, type[Answers]]) -> None:
    url, served = answers
    served.paths = {"/schemas/ids/7": {"schema": INT}}
    registry = HttpRegistry(url + "/")
    assert [registry.schema(7).text for _ in range(3)] == [INT] * 3
    assert served.asked == ["/schemas/ids/7"]


def test_schemas_that_a_schema_names_come_with_it_each_after_its_own(
    answers: tuple[str, type[Answers]],
) -> None:
    url, served = answers

    def refers(name: str) -> list[dict[str, Any]]:
        return [{"name": name, "subject": f"of {name}", "version": 2}]

    served.paths = {
        "/schemas/ids/7": {"schema": "top", "references": refers("a.B")},
        "/subjects/of%20a.B/versions/2": {"schema": "middle", "references": refers("a.C")},
        "/subjects/of%20a.C/versions/2": {"schema": "bottom"},
    }
    found = HttpRegistry(url).schema(7)
    assert list(found.references.items()) == [("a.C", "bottom"), ("a.B", "middle")]


def test_a_schema_that_many_name_is_asked_for_once(answers: tuple[str, type[Answers]]) -> None:
    """A diamond for each level: 2**40 ways."""
    url, served = answers

    def needs(level: int) -> list[dict[str, Any]]:
        names = [f"{side}{level - 1}" for side in "LR"] if level else []
        return [{"name": one, "subject": one, "version": 1} for one in names]

    served.paths = {
        f"/subjects/{side}{level}/versions/1": {"schema": INT, "references": needs(level)}
        for level in range(40)
        for side in "LR"
    }
    served.paths["/schemas/ids/7"] = {"schema": INT, "references": needs(40)}
    found = HttpRegistry(url).schema(7)
    assert len(served.asked) == 81
    names = list(found.references)
    assert len(names) == 80
    for level in range(1, 40):
        assert names.index(f"L{level}") > max(names.index(f"{side}{level - 1}") for side in "LR")


def test_a_chain_of_references_without_an_end_is_refused(
    answers: tuple[str, type[Answers]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, served = answers
    monkeypatch.setattr("ottla.schema_registry.http.MOST_REFERENCES", 20)
    served.paths = {
        f"/subjects/s{number}/versions/1": {
            "schema": INT,
            "references": [{"name": f"s{number + 1}", "subject": f"s{number + 1}", "version": 1}],
        }
        for number in range(30)
    }
    served.paths["/schemas/ids/7"] = served.paths["/subjects/s0/versions/1"]
    with pytest.raises(UserError, match="more than 20 references"):
        HttpRegistry(url).schema(7)


def test_schemas_that_name_each_other_are_refused(answers: tuple[str, type[Answers]]) -> None:
    url, served = answers
    reference = [{"name": "a", "subject": "a", "version": 1}]
    served.paths = {
        path: {"schema": INT, "references": reference}
        for path in ("/schemas/ids/7", "/subjects/a/versions/1")
    }
    with pytest.raises(UserError, match="a refers to itself"):
        HttpRegistry(url).schema(7)


def test_versions_come_the_oldest_first(answers: tuple[str, type[Answers]]) -> None:
    url, served = answers
    served.paths = {
        "/subjects/t-value/versions": [10, 9],
        "/subjects/t-value/versions/9": {"schema": "old", "schemaType": "PROTOBUF"},
        "/subjects/t-value/versions/10": {"schema": "new"},
    }
    old, new = HttpRegistry(url).versions("t-value")
    assert (old, new) == (RegisteredSchema(text="old", kind=PROTOBUF), RegisteredSchema(text="new"))


@pytest.mark.parametrize(
    ("login", "wanted"),
    [
        (RegistryLogin(user="me", password="a:b"), b"Basic " + base64.b64encode(b"me:a:b")),
        (RegistryLogin(token="t"), b"Bearer t"),
    ],
)
def test_who_asks_is_said_as_the_login_has_it(
    answers: tuple[str, type[Answers]], login: RegistryLogin, wanted: bytes
) -> None:
    url, served = answers
    served.paths = {f"/schemas/guids/{GUID}": {"schema": INT}}
    served.wants = wanted.decode()
    assert HttpRegistry(url, login).schema_of_guid(GUID).text == INT
    with pytest.raises(UserError, match=r"access to schema id 7 is denied \(401\): see basic"):
        HttpRegistry(url).schema(7)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"<html>", "its response is invalid"),
        ({}, "its response has no schema"),
        ([], "its response has no schema"),
        ({"schema": INT, "references": [{"name": "a"}]}, "a reference without a schema"),
        ({"schema": INT, "references": 5}, "a reference without a schema"),
    ],
)
def test_what_is_no_registry_is_named(
    answers: tuple[str, type[Answers]], answer: Any, message: str
) -> None:
    url, served = answers
    served.paths = {"/schemas/ids/7": answer}
    with pytest.raises(UserError, match=message):
        HttpRegistry(url).schema(7)


def test_an_id_that_is_nowhere_is_another_error_than_a_registry_that_is_not_there(
    answers: tuple[str, type[Answers]], tmp_path: Path
) -> None:
    url, _ = answers
    for registry in (HttpRegistry(url), DirectoryRegistry(str(tmp_path))):
        with pytest.raises(UnknownSchemaError, match="has no schema id 9"):
            registry.schema(9)
    for registry in (HttpRegistry("http://127.0.0.1:1"), DirectoryRegistry(str(tmp_path / "x"))):
        with pytest.raises(UserError) as raised:
            registry.schema(9)
        assert not isinstance(raised.value, UnknownSchemaError)


@pytest.mark.parametrize("answer", [5, {}, ["a"], None])
def test_versions_that_are_no_list_of_numbers_are_named(
    answers: tuple[str, type[Answers]], answer: Any
) -> None:
    url, served = answers
    served.paths = {"/subjects/t-value/versions": answer}
    with pytest.raises(UserError, match="no versions of subject t-value"):
        HttpRegistry(url).versions("t-value")


def test_a_redirect_does_not_take_the_login_to_another_place() -> None:
    logins: list[str | None] = []

    class Redirecting(Answers):
        def do_GET(self) -> None:  # noqa: N802 -- the name that the server calls
            logins.append(self.headers.get("Authorization"))
            if self.path == "/there":
                self._answer(200, {"schema": INT})
                return
            self.send_response(302)
            self.send_header("Location", "/there")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with listening(Redirecting) as url:
        assert HttpRegistry(url, RegistryLogin(token="t")).schema(7).text == INT
    assert logins == ["Bearer t", None]


def test_a_token_that_no_header_can_hold_is_refused_and_not_printed() -> None:
    with pytest.raises(UserError, match=r"bearer\.auth\.token has characters") as raised:
        HttpRegistry("http://127.0.0.1:1", RegistryLogin(token="secret\n")).schema(7)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://localhost:abc", "http://[", "http://", "https://:8081"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(
        UserError, match="is not a registry's address, such as http://localhost:8081"
    ):
        HttpRegistry(url)


def test_a_password_in_the_address_is_refused() -> None:
    with pytest.raises(UserError, match="--registry-config"):
        HttpRegistry("http://me:secret@registry:8081")


def test_a_directory_has_schemas_by_id_and_versions_by_subject(tmp_path: Path) -> None:
    for name, text in (("7.avsc", INT), ("t-value.2.avsc", '"long"'), ("t-value.10.avsc", INT)):
        (tmp_path / name).write_text(text)
    (tmp_path / "u-value.proto").write_text("message M {}")
    registry = DirectoryRegistry(str(tmp_path))
    assert registry.schema(7).text == INT
    assert [one.text for one in registry.versions("t-value")] == ['"long"', INT]
    assert [one.kind for one in registry.versions("u-value")] == [PROTOBUF]
    (tmp_path / "8.avsc").write_text("{")
    with pytest.raises(UserError, match=r"8\.avsc is not JSON"):
        registry.schema(8)


def guid(headers: Any, name: str = VALUE_HEADER) -> int | str | None:
    found = framed(b"", schema_header(headers, name))
    return found and found.schema


def test_an_id_is_read_from_a_prefix_and_a_guid_from_a_header() -> None:
    assert prefixed_id(PREFIX.pack(0, 7) + b"x") == 7
    assert prefixed_id(b"\1\0\0\0\7") is prefixed_id(b"\0\0\0\7") is None
    value = b"\1" + bytes.fromhex(GUID.replace("-", ""))
    headers = [{"key": "__value_schema_id", "value": value}]
    assert guid(headers) == GUID
    assert guid(headers, KEY_HEADER) is guid(None) is None
    assert guid([{"key": VALUE_HEADER, "value": value[:-1]}]) is None


def test_a_login_takes_confluents_names_and_refuses_what_has_no_effect() -> None:
    settings = {
        "schema.registry.url": "http://r",
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": "me:a:b",
        "schema.registry.ssl.ca.location": "ca.pem",
        "security.protocol": "SSL",
    }
    assert parse_login(settings) == RegistryLogin(user="me", password="a:b", ca_location="ca.pem")
    assert "a:b" not in repr(parse_login(settings))
    with pytest.raises(UserError, match=r"ssl\.keystore\.location has no effect"):
        parse_login({"schema.registry.ssl.keystore.location": "x"})
    with pytest.raises(UserError, match="SASL_INHERIT is unknown"):
        parse_login({"basic.auth.credentials.source": "SASL_INHERIT"})


class Busy(Answers):
    """Answers with each status of a list first, and then as others do."""

    statuses: ClassVar[list[int]] = []

    def do_GET(self) -> None:  # noqa: N802 -- the name that the server calls
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 0:
            self.close_connection = True
        elif status == 200:
            self._answer(200, {"schema": INT})
        else:
            self._answer(status, b"<html>busy</html>")


@pytest.mark.parametrize("statuses", [[429], [500, 503], [0], [0, 502, 429]])
def test_a_registry_that_is_busy_or_hangs_up_is_asked_again(statuses: list[int]) -> None:
    Busy.statuses = [*statuses]
    with listening(Busy) as url:
        assert HttpRegistry(url, pauses_s=(0, 0, 0)).schema(7).text == INT
    assert Busy.statuses == []


@pytest.mark.parametrize(
    ("statuses", "told"), [([429] * 9, "failed: 429$"), ([0] * 9, "it hung up"), ([400], "400$")]
)
def test_a_registry_that_stays_busy_is_an_error_in_the_end(statuses: list[int], told: str) -> None:
    Busy.statuses = [*statuses]
    with listening(Busy) as url:
        with pytest.raises(UserError, match=told) as raised:
            HttpRegistry(url, pauses_s=(0, 0)).schema(7)
        assert not isinstance(raised.value, UnknownSchemaError)
        assert len(Busy.statuses) == max(0, len(statuses) - 3)
        Busy.statuses = [503]
        with pytest.raises(UserError, match="failed: 503"):
            HttpRegistry(url, patience_s=1, pauses_s=(2,)).schema(7)


def test_what_is_not_found_at_an_address_without_a_registry_is_no_missing_schema() -> None:
    Busy.statuses = [404]
    with listening(Busy) as url, pytest.raises(UserError, match="check the URL") as raised:
        HttpRegistry(url).schema(7)
    assert not isinstance(raised.value, UnknownSchemaError)


def test_a_registry_that_is_silent_is_named_with_the_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UserError, match=r"did not answer .* schema id 7 within 0\.01 s"):
            HttpRegistry(url, patience_s=0.01).schema(7)


def test_a_token_in_a_file_is_read_for_each_request(
    answers: tuple[str, type[Answers]], tmp_path: Path
) -> None:
    url, served = answers
    served.paths = {f"/schemas/ids/{number}": {"schema": INT} for number in (7, 8)}
    token = tmp_path / "token"
    settings = {
        "bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT",
        "sasl.oauthbearer.token.endpoint.url": f"file://{token}",
    }
    registry = HttpRegistry(url, parse_login(settings))
    with pytest.raises(UserError, match=r"token: No such file or directory; it must hold a token"):
        registry.schema(7)
    for number, text in ((7, "first"), (8, "second")):
        token.write_text(f"{text}\n")
        served.wants = f"Bearer {text}"
        assert registry.schema(number).text == INT
    del settings["sasl.oauthbearer.token.endpoint.url"]
    with pytest.raises(UserError, match=r"needs sasl\.oauthbearer.*=file:///PATH"):
        parse_login(settings)


class Issuer(Served):
    """A registry, and beside it a server that gives tokens to one client."""

    given: ClassVar[list[str]] = []
    forms: ClassVar[list[str]] = []
    life: ClassVar[dict[str, Any]] = {}
    named: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:  # noqa: N802 -- the name that the server calls
        self.named.append(self.headers.get("target-sr-cluster"))
        super().do_GET()

    def do_POST(self) -> None:  # noqa: N802 -- the name that the server calls
        self.forms.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        if login != "me%3A1:it%27s%20100%25":
            told = {"error": "invalid_client", "error_description": "who?"}
            self._answer(401, told)
            return
        self.given.append(f"token-{len(self.given)}")
        type(self).wants = f"Bearer {self.given[-1]}"
        self._answer(200, {"access_token": self.given[-1], "token_type": "Bearer", **self.life})


@pytest.fixture
def issuer() -> Iterator[tuple[str, dict[str, str]]]:
    Issuer.paths = {f"/schemas/ids/{number}": {"schema": INT} for number in range(9)}
    Issuer.asked, Issuer.given, Issuer.forms, Issuer.named = [], [], [], []
    Issuer.life, Issuer.wants = {"expires_in": 3600}, "nothing"
    with listening(Issuer) as url:
        yield (
            url,
            {
                "bearer.auth.credentials.source": "OAUTHBEARER",
                "bearer.auth.issuer.endpoint.url": f"{url}/oauth/token",
                "bearer.auth.client.id": "me:1",
                "bearer.auth.client.secret": "it's 100%",
                "bearer.auth.scope": "schemas read",
                "bearer.auth.logical.cluster": "lsrc-1",
            },
        )


def test_a_token_of_an_oauth_server_is_kept_until_it_ends_or_is_refused(
    issuer: tuple[str, dict[str, str]],
) -> None:
    url, settings = issuer
    registry = HttpRegistry(url, parse_login(settings))
    assert [registry.schema(number).text for number in (1, 2)] == [INT] * 2
    assert Issuer.given == ["token-0"]
    assert Issuer.forms == ["grant_type=client_credentials&scope=schemas+read"]
    Issuer.wants = "Bearer of another key"
    assert registry.schema(3).text == INT
    assert Issuer.given == ["token-0", "token-1"]
    assert set(Issuer.named) == {"lsrc-1"}
    Issuer.life = {"expires_in": 0}
    registry = HttpRegistry(url, parse_login(settings))
    assert [registry.schema(number).text for number in (1, 2)] == [INT] * 2
    assert len(Issuer.given) == 4


def test_an_oauth_server_that_refuses_or_is_not_there_is_named(
    issuer: tuple[str, dict[str, str]],
) -> None:
    url, settings = issuer
    wrong = parse_login({**settings, "bearer.auth.client.secret": "s3cret"})
    assert "s3cret" not in repr(wrong)
    with pytest.raises(UserError, match=r"token: it refuses a token \(401, invalid_client who\?\)"):
        HttpRegistry(url, wrong).schema(1)
    Issuer.life = {"access_token": None}
    with pytest.raises(UserError, match="its answer has no access_token"):
        HttpRegistry(url, parse_login(settings)).schema(1)
    Issuer.life = {"access_token": "never"}
    with pytest.raises(UserError, match=r"denied \(401\): see .*bearer\.auth\.\*"):
        HttpRegistry(url, parse_login(settings)).schema(1)
    elsewhere = {**settings, "bearer.auth.issuer.endpoint.url": "http://127.0.0.1:1/"}
    with pytest.raises(UserError, match=r"token server http://127\.0\.0\.1:1/: it cannot"):
        HttpRegistry(url, parse_login(elsewhere)).schema(1)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"bearer.auth.issuer.endpoint.url": "file:///x"}, "needs bearer.auth.issuer.endpoint.url"),
        ({"bearer.auth.client.id": ""}, "bearer.auth.client.id=NAME"),
        ({"bearer.auth.cache.expiry.buffer.seconds": "soon"}, "soon is no number of seconds"),
        ({"bearer.auth.sub.claim.name": "x"}, "sub.claim.name has no effect here"),
        ({"bearer.auth.credentials.source": "CUSTOM"}, "CUSTOM is unknown: use STATIC_TOKEN"),
    ],
)
def test_settings_of_an_oauth_server_are_checked(
    issuer: tuple[str, dict[str, str]], changed: dict[str, str], words: str
) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        parse_login({**issuer[1], **changed})
