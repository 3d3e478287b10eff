"""Objects in a store that speaks as S3 does, and stores that refuse or do not answer."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ottla.base.errors import UserError
from ottla.objects.arrow_store import STORAGE_OPTIONS, ArrowStore
from ottla.objects.cloud_store import CloudOptions, CloudStore
from ottla.objects.refusal import refusal
from ottla.objects.store import ObjectStore, StoredObject, StoreError
from tests.support import stores
from tests.support.ports import free_port

pytest.importorskip("obstore", reason="obstore is not installed")

IMPATIENT = {**STORAGE_OPTIONS, "max_retries": "1", "retry_timeout": "2s"}
NOT_WAITING = CloudOptions(timeout_ms=500, give_up_ms=500, max_retries=1)

# In a process of its own, as `stores` says.
REFUSING = """
import http.server, sys
class Refusal(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(sys.argv[1]))
        self.send_header("Content-Length", "0")
        self.end_headers()
    do_HEAD = do_GET
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Refusal)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def refusing(status: int) -> Iterator[int]:
    """The port of a store that answers everything with one status."""
    with subprocess.Popen(
        [sys.executable, "-c", REFUSING, str(status)], stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


KINDS: dict[str, Callable[[str], ObjectStore]] = {
    "obstore": lambda address: CloudStore(address, "tier", NOT_WAITING),
    "deltalake": lambda address: ArrowStore(address, "tier", IMPATIENT),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def at(
    port: int, patch: pytest.MonkeyPatch, kind: str, address: str = "s3://bucket/tier"
) -> ObjectStore:
    for name, value in stores.environment_of(port).items():
        patch.setenv(name, value)
    return KINDS[kind](address)


@pytest.mark.slow
@each_kind
def test_objects_are_put_read_in_ranges_listed_and_deleted(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stores.served() as port:
        store = at(port, monkeypatch, kind, f"{stores.new_bucket(port)}/tier")
        store.put("a/b", b"0123456789")
        assert (store.size("a/b"), store.read("a/b"), store.get("a/b", 2, 3)) == (
            10,
            b"0123456789",
            b"234",
        )
        assert (store.get("a/b", 8, 30), store.get("a/b", 10, 1), store.get("a/b", 20, 1)) == (
            b"89",
            b"",
            b"",
        )
        store.put("a/b", b"other content")
        assert (store.size("a/b"), store.get("a/b", 6, 99)) == (13, b"content")
        assert (store.names(""), store.names("a"), store.names("none")) == (["a"], ["b"], [])
        assert (store.folders(""), store.folders("a")) == (["a"], [])
        assert store.find("") == [StoredObject(path="a/b", size=13)]
        store.delete("a/b")
        for ask in (store.size, store.read, lambda path: store.get(path, 0, 1)):
            with pytest.raises(FileNotFoundError):
                ask("a/b")
        with pytest.raises(UserError, match=r"s3://none/x: .*; check the name of the bucket"):
            at(port, monkeypatch, kind, "s3://none/x").names("")


@pytest.mark.slow
@each_kind
def test_a_store_that_refuses_is_said_in_one_line_with_the_fix(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusing(403) as port:
        store = at(port, monkeypatch, kind)
        for ask in (store.size, store.names, store.find, lambda path: store.get(path, 0, 1)):
            with pytest.raises(StoreError, match=r"s3://bucket/tier: .*403.*; let these") as caught:
                ask("a")
            assert not caught.value.is_retriable
            assert "\n" not in str(caught.value)
            assert "AWS_ACCESS_KEY_ID" in str(caught.value)


@pytest.mark.slow
@each_kind
def test_a_store_that_does_not_answer_is_said_in_one_line_with_the_fix(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusing(503) as port:
        for silent in (port, free_port()):
            store = at(silent, monkeypatch, kind)
            for ask in (store.size, store.names):
                with pytest.raises(StoreError, match=r"s3://bucket/tier: .*; try again when") as it:
                    ask("a")
                assert it.value.is_retriable
                assert "\n" not in str(it.value)
                assert "AWS_ENDPOINT_URL" in str(it.value)


def test_what_a_library_says_without_a_known_fix_is_repeated() -> None:
    text = str(refusal("s3://bucket/x", OSError("something\n  \x1b[31m\u21b3\x1b[0m odd")))
    assert text == "s3://bucket/x: something: odd"
