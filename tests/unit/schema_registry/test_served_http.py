"""The served registry over HTTP, as clients, pages of other sites and strangers ask it."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("avro")

from ottla.base.errors import UserError
from ottla.schema_registry.served import http
from ottla.schema_registry.served.api import Api
from ottla.schema_registry.served.http import RegistryServer, is_own_host, media_type
from tests.unit.schema_registry.test_served_api import ListedLog

V1, DEFAULT, PLAIN = http.MEDIA_TYPES
INT = b'{"schema":"\\"int\\""}'
REGISTER = "POST /subjects/t/versions"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = RegistryServer(("127.0.0.1", 0), Api(ListedLog()), ["registry.example.org"])
    server.start()
    yield server.port
    server.close()


def raw(port: int, data: bytes) -> bytes:
    """All that is answered until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(data)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
        return b"".join(parts)


def ask(port: int, line: str, body: bytes = b"", **headers: str | None) -> tuple[int, Any, str]:
    """The status, the JSON and the content type; a header of `None` is left out."""
    given: dict[str, str | None] = {
        "Host": f"localhost:{port}",
        "Connection": "close",
        "Content-Type": V1,
        "Content-Length": str(len(body)),
    }
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value)]
    head, _, content = raw(port, "\r\n".join([*lines, "", ""]).encode("latin-1") + body).partition(
        b"\r\n\r\n"
    )
    first, *rest = head.decode().split("\r\n")
    kind = next(one for one in rest if one.startswith("Content-Type: ")).partition(": ")[2]
    return int(first.split()[1]), json.loads(content) if content else None, kind


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", None]
)
def test_what_a_form_of_another_site_can_send_is_not_taken(port: int, kind: str | None) -> None:
    assert ask(port, REGISTER, INT, Content_Type=kind)[0] == 415
    assert ask(port, "GET /subjects")[1] == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "http://[bad"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:8081"}, 403),
        ({"Host": None}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Host": "registry.example.org"}, 200),
        ({"Host": "REGISTRY.example.org:80"}, 200),
        ({"Host": "[::1]:8081"}, 200),
        ({"Host": "schema-registry:8081"}, 200),
        ({"Host": "ottla.kafka.svc.cluster.local"}, 200),
    ],
)
def test_a_page_of_another_site_may_neither_ask_nor_rebind(
    port: int, headers: dict[str, Any], status: int
) -> None:
    assert ask(port, "GET /subjects", **headers)[0] == status
    assert ask(port, "DELETE /subjects/none", **headers)[0] == (403 if status == 403 else 404)


@pytest.mark.parametrize(
    ("accepted", "kind"),
    [
        ([], V1),
        (["*/*"], V1),
        (["application/*"], V1),
        ([PLAIN], PLAIN),
        ([f"{DEFAULT}; q=0.2, {PLAIN};q=0.9"], PLAIN),
        ([f"{V1}, {DEFAULT}, {PLAIN}"], V1),
        (["text/html", PLAIN.upper()], PLAIN),
        (["text/html, */*;q=0.1"], V1),
        ([f"{V1};q=0, */*"], DEFAULT),
        (["text/html"], None),
        (["application/xml"], None),
        ([f"{PLAIN};q=0"], None),
        ([f"{PLAIN};q=x"], None),
        (["*/*;q=nan"], None),
    ],
)
def test_the_content_type_is_one_that_is_accepted(accepted: list[str], kind: str | None) -> None:
    assert media_type(accepted) == kind


def test_accept_is_asked_for_by_header(port: int) -> None:
    assert ask(port, "GET /subjects", Accept=PLAIN)[2] == PLAIN
    assert ask(port, "GET /none", Accept=PLAIN)[2] == PLAIN
    status, content, kind = ask(port, "GET /subjects", Accept="text/html")
    assert (status, content["error_code"], kind) == (406, 406, V1)


@pytest.mark.parametrize(
    ("line", "body", "headers", "status"),
    [
        (REGISTER, b"", {"Content_Length": "-1"}, 400),
        (REGISTER, b"", {"Content_Length": "x"}, 400),
        (REGISTER, b"", {"Content_Length": "\xb2"}, 400),
        (REGISTER, b"", {"Content_Length": "9" * 5000}, 413),
        (REGISTER, b"", {"Content_Length": str((2 << 20) + 1)}, 413),
        (REGISTER, b"5\r\n{}   \r\n0\r\n\r\n", {"Transfer_Encoding": "chunked"}, 411),
        (REGISTER, INT, {"Content-Length": "3\r\nContent-Length: 20"}, 400),
        (REGISTER, b"\xff\xfe", {}, 400),
        (REGISTER, b'{"schema":"\xc3"}', {}, 400),
        (REGISTER, b'{"schema":' + b"[" * 100_000, {}, 400),
        (REGISTER, b"[]", {}, 400),
        (REGISTER, b"null", {}, 400),
        (REGISTER, b'{"schema":' + b"9" * 5000 + b"}", {}, 400),
        ("POST /subjects/%C3%28/versions", INT, {}, 400),
        ("POST /subjects/..%2F..%2Fetc%2Fpasswd", INT, {}, 404),
        ("GET /subjects/../../etc/passwd", b"", {}, 404),
        ("GET //evil.example/subjects", b"", {}, 404),
        ("GET http://localhost/subjects", b"", {}, 200),
        ("GET /subjects#x?deleted=true", b"", {}, 200),
        ("GET /subjects?" + "&".join("a=1" for _ in range(2000)), b"", {}, 200),
        ("GET /subjects/" + "a" * 70_000, b"", {}, 414),
        ("GET /subjects/%00/versions", b"", {}, 404),
        ("OPTIONS /subjects", b"", {"Origin": "http://evil.example"}, 403),
        ("OPTIONS /subjects", b"", {}, 405),
        ("PATCH /subjects", b"", {}, 405),
        ("TRACE /subjects", b"", {}, 405),
        ("BREW /subjects", b"", {}, 501),
        ("HEAD /subjects", b"", {}, 200),
        ("HEAD /none", b"", {}, 404),
    ],
)
def test_whatever_a_stranger_sends_has_an_answer(
    port: int, line: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    found, content, kind = ask(port, line, body, **headers)
    assert found == status
    assert kind == V1
    if status != 200 and not line.startswith("HEAD"):
        assert int(str(content["error_code"])[:3]) == status
        assert content["message"]
    assert (content is None) is line.startswith("HEAD")


def test_what_is_not_http_has_an_answer_without_a_page(port: int) -> None:
    found = raw(port, b"\x16\x03\x01\x02\x00\x01\r\n\r\n")
    assert b"<html" not in found.lower()
    assert json.loads(found[found.index(b"{") :])["error_code"] == 400


def test_what_follows_a_refused_body_is_not_taken_as_a_request(port: int) -> None:
    hidden = b"DELETE /subjects/t HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = f"POST /subjects HTTP/1.1\r\nHost: localhost\r\nContent-Length: {3 << 20}\r\n\r\n"
    assert raw(port, head.encode() + hidden).count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("sent", [b"", INT[:4]])
def test_a_body_that_does_not_arrive_ends_the_connection(
    port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "BODY_PATIENCE_S", 0.05)
    assert ask(port, REGISTER, sent, Content_Length="100")[0] == 408


def test_a_body_that_is_cut_is_not_taken(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        head = f"{REGISTER} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {V1}\r\n"
        connection.sendall(f"{head}Content-Length: 100\r\n\r\n".encode() + INT)
        connection.shutdown(socket.SHUT_WR)
        assert b" 400 " in connection.recv(1 << 16)
    assert ask(port, "GET /subjects")[1] == []


def test_names_that_a_stranger_can_own_are_not_ours() -> None:
    names = {"registry.example.org"}
    for host in ("localhost", "a.localhost:8081", "127.0.0.1", "[::1]:1", "registry", "a.internal"):
        assert is_own_host(host, names)
    for host in ("", "a.b", "localhost.evil.org", "evil.org:80", "xlocal.org", "127.0.0.1.nip.io"):
        assert not is_own_host(host, names)


def test_a_log_that_does_not_answer_is_said() -> None:
    class Gone(ListedLog):
        def read_new(self) -> Any:
            raise UserError("nobody there")

    server = RegistryServer(("127.0.0.1", 0), Api(Gone()))
    server.start()
    status, content, _ = ask(server.port, "GET /subjects")
    assert (status, content["error_code"], content["message"]) == (500, 50003, "nobody there")
    server.close()
