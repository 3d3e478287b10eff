"""Live streams are bounded, for each visitor and in all."""

import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from pathlib import Path
from urllib.error import HTTPError

import pytest

from ottla.base.errors import UnreachableError
from ottla.cli.console.console_command import console_target
from ottla.cli.target import parse_target
from ottla.client.connecting.cluster import ClientSettings
from ottla.console import app
from ottla.console.events import Fragment, OpenStreams, SerialStream
from ottla.console.targets import Place
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, Browser, fill
from tests.console.demo import console_of
from tests.support.patience import PATIENCE_S, wait_until

TAIL = "/topics/orders/tail-stream"


def test_one_visitor_has_a_few_streams_and_loses_the_oldest() -> None:
    streams = OpenStreams(most_of_visitor=2, most=10)
    first, second, third = (streams.begin("Eva") for _ in range(3))
    other = streams.begin("Ada")
    assert [streams.has("Eva", one) for one in (first, second, third)] == [False, True, True]
    assert streams.has("Ada", other)
    streams.end("Eva", first)
    assert streams.has("Eva", second)


def test_a_console_without_room_takes_another_stream_when_one_has_ended() -> None:
    streams = OpenStreams(most_of_visitor=2, most=3)
    names = [streams.begin(f"visitor {number}") for number in range(3)]
    assert streams.begin("visitor 3") is None
    streams.end("visitor 1", names[1])
    streams.end("visitor 1", names[1])
    assert streams.begin("visitor 3") is not None
    assert streams.begin("visitor 4") is None


def test_a_full_console_still_gives_a_visitor_the_newest_page() -> None:
    streams = OpenStreams(most_of_visitor=2, most=2)
    first, second = streams.begin("Eva"), streams.begin("Eva")
    third = streams.begin("Eva")
    assert third is not None
    assert [streams.has("Eva", one) for one in (first, second, third)] == [False, True, True]


@pytest.mark.slow
def test_a_stream_that_ended_or_failed_leaves_room(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(app.MOST_STREAMS + 1):
        assert browser.get("/topics/none/tail-stream").status_code == 404
    for _ in range(3):
        assert "event: end" in browser.get("/topics/orders/messages-stream?text=tea").text


def test_a_connection_in_use_when_a_place_is_closed_is_closed_after_its_question(
    broker: LocalBroker,
) -> None:
    place = Place(console_target(parse_target(broker.address, {})), ClientSettings())
    with place.cluster() as cluster:
        cluster.node_ids()
        connection = next(cluster.brokers())
        place.close()
    with pytest.raises(UnreachableError):
        connection.ask(ApiVersionsRequest())


def test_settings_that_files_ask_for_later_are_not_asked_over_another_questions_connection(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(
        Place(console_target(parse_target(broker.address, {})), ClientSettings())
    ) as place:
        files = place.files("orders")
        assert files is not None
        with place.cluster() as of_another_question:
            monkeypatch.setattr(of_another_question, "ask_any", None)
            assert files.config("orders").cleanup_policy == ("delete",)


def test_a_stream_is_closed_after_the_step_under_way_and_takes_no_other() -> None:
    began, may_end, done = threading.Event(), threading.Event(), []

    class Slow:
        def step(self) -> list[Fragment] | None:
            began.set()
            may_end.wait(PATIENCE_S)
            done.append("step")
            return []

        def close(self) -> None:
            done.append("close")

    stream = SerialStream(Slow())
    with ThreadPoolExecutor() as pool:
        step = pool.submit(stream.step)
        began.wait(PATIENCE_S)
        closed = pool.submit(stream.close)
        assert not closed.done()
        may_end.set()
        assert step.result() == []
        closed.result()
    assert done == ["step", "close"]
    assert stream.step() is None
    assert done == ["step", "close"]


def test_streams_do_not_sleep_on_when_the_console_stops(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.console.views.streams.TAIL_STEP_S", 10 * PATIENCE_S)
    with console_of(broker) as address, urllib.request.urlopen(address + TAIL) as page:
        assert page.status == 200


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A console with room for three streams, two of one visitor."""
    monkeypatch.setattr(app, "MOST_STREAMS_OF_VISITOR", 2)
    monkeypatch.setattr(app, "MOST_STREAMS", 3)
    monkeypatch.setattr("ottla.console.views.streams.TAIL_STEP_S", 0.0)
    with LocalBroker(tmp_path / "data", FEW_LOGS) as broker:
        fill(broker.log)
        with console_of(broker) as found:
            yield found


def followed(address: str, cookie: str = "") -> HTTPResponse:
    request = urllib.request.Request(address + TAIL, headers={"cookie": cookie} if cookie else {})
    answer = urllib.request.urlopen(request, timeout=PATIENCE_S)
    assert answer.readline() == b"event: rate\n"
    found: HTTPResponse = answer
    return found


def cookie_of(answer: HTTPResponse) -> str:
    return (answer.headers["set-cookie"] or "").partition(";")[0]


@pytest.mark.slow
def test_the_oldest_page_of_a_visitor_ends_with_a_sentence(address: str) -> None:
    with ExitStack() as pages:
        first = pages.enter_context(followed(address))
        cookie = cookie_of(first)
        for _ in range(2):
            pages.enter_context(followed(address, cookie))
        text = first.read().decode()
    assert "event: failed" in text
    assert "load this page again" in text


@pytest.mark.slow
def test_a_stream_too_many_is_refused_until_another_page_is_closed(address: str) -> None:
    with ExitStack() as pages:
        opened = [pages.enter_context(followed(address)) for _ in range(3)]
        with pytest.raises(HTTPError) as refused:
            followed(address)
        assert refused.value.code == 429
        assert "close one" in refused.value.read().decode()
        opened[0].close()

        def is_taken() -> bool:
            try:
                pages.enter_context(followed(address))
            except HTTPError:
                return False
            return True

        wait_until(is_taken)
