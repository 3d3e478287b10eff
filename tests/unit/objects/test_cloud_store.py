"""Objects in a store that speaks as S3 does, and stores that refuse or do not answer."""

import http.server
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread

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


@pytest.mark.slow
def test_an_object_is_streamed_in_parts_and_a_broken_source_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 5 << 20
    with stores.served() as port:
        bucket = stores.new_bucket(port)
        for name, value in stores.environment_of(port).items():
            monkeypatch.setenv(name, value)
        options = CloudOptions(part_size=size)
        store = CloudStore(f"{bucket}/tier", "tier", options)
        for length in (0, 1, size, size + 1, 2 * size + 7):
            content = (b"0123456789ab" * (1 + length // 12))[:length]
            steps = [content[at : at + 700_001] for at in range(0, length, 700_001)]
            store.put_parts("a/b", map(memoryview, steps))
            assert store.size("a/b") == length
            assert store.read("a/b") == content

        def broken(count: int) -> Iterator[bytes]:
            for _ in range(count):
                yield bytes(1 << 20)
            raise ValueError("the source")

        for count in (0, 1, 12):
            with pytest.raises(ValueError, match="the source"):
                store.put_parts("a/c", broken(count))
            assert not store.has("a/c")
        url = f"http://127.0.0.1:{port}/{bucket.removeprefix('s3://')}?uploads"
        with urllib.request.urlopen(url) as answer:
            assert b"<Upload>" not in answer.read()
        for path in ("x/1", "x/2", "x/3"):
            store.put(path, b"1")
        store.delete_all(["x/1", "x/none", "x/3"])
        store.delete_all(["x/none"])
        assert store.names("x") == ["2"]
        with pytest.raises(StoreError, match="check the name of the bucket") as caught:
            CloudStore("s3://none/x", "tier", options).put_parts("a", [b"1"])
        assert not caught.value.is_retriable


def test_other_threads_run_while_a_store_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in this process: its thread could not even take the requests otherwise."""
    turns = [(Event(), Event())]
    """Of each call: whether it has been asked for, and whether it may be answered."""

    class Slow(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked, may_answer = turns[-1]
            asked.set()
            assert may_answer.wait(30)
            self.send_response(500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def __getattr__(self, name: str) -> Callable[[], None]:
            if name.startswith("do_"):
                return self.answer
            raise AttributeError(name)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    options = CloudOptions(max_retries=0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        for name, value in stores.environment_of(server.server_port).items():
            monkeypatch.setenv(name, value)
        serving = Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        store = CloudStore("s3://bucket/tier", "tier", options)
        calls: list[Callable[[], object]] = [
            lambda: store.put_parts("a", [b"x" * 1000]),
            lambda: store.put_parts("a", [bytes(9 << 20)]),
            lambda: store.size("a"),
            lambda: store.get("a", 0, 10),
            lambda: store.read("a"),
            lambda: store.names(""),
            lambda: store.delete_all(["a", "b"]),
        ]
        with ThreadPoolExecutor(1) as pool:
            for call in calls:
                asked, may_answer = Event(), Event()
                turns.append((asked, may_answer))
                done = pool.submit(call)
                assert asked.wait(30)  # This thread runs, and the request waits.
                assert not done.done()
                may_answer.set()
                with pytest.raises(StoreError):
                    done.result(30)
        server.shutdown()
        serving.join()


def test_a_store_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, and says nothing
        for name, value in stores.environment_of(server.getsockname()[1]).items():
            monkeypatch.setenv(name, value)
        impatient = CloudOptions(timeout_ms=50, give_up_ms=50, max_retries=1)
        store = CloudStore("s3://bucket/tier", "tier", impatient)
        for call in (lambda: store.put_parts("a", [b"x"]), lambda: store.size("a")):
            with pytest.raises(StoreError, match="try again when the store answers") as caught:
                call()
            assert caught.value.is_retriable
