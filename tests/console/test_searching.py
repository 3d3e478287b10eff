"""A search through messages: what it finds, in which order, how it stops, and how it continues."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import OttlaError
from ottla.console.pages import QueryError
from ottla.console.searching import (
    OLDEST,
    Search,
    SearchQuery,
    cursor_text,
    parse_cursor,
    parse_partitions,
)
from ottla.console.views.streams import SearchStream, TailStream
from ottla.search.sources import FileRecords
from ottla.testing import LocalBroker
from tests.console.asking import Browser

NOW_MS = 1_767_225_600_000
COUNT = 3000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions; message n is of second n, and has its number in key, value and header."""
    path = tmp_path_factory.mktemp("search") / "data"
    with ottla.open(path) as log:
        log.create_topic("orders", partitions=3, config={"retention.ms": -1})
        for partition in range(3):
            builder = ottla.RecordBatchBuilder()
            for number in range(partition, COUNT, 3):
                value = json.dumps({"n": number, "even": number % 2 == 0}).encode()
                headers = [("hundred", b"yes")] if number % 100 == 0 else []
                builder.append(b"key %d" % number, value, NOW_MS + number * 1000, headers)
            log.append_batch("orders", partition, builder)
    return path


class Clock:
    """Moves on by a second with each look: every step ends at its first look."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def search(data: Path, clock: Clock | None = None, after: str = "", **query: Any) -> Search:
    source = FileRecords.at([str(data)], read_committed=True)
    return Search(
        nullcontext(source),
        SearchQuery(topic="orders", **query),
        NOW_MS + COUNT * 1000,
        cursor=parse_cursor(after),
        clock=clock or Clock(),
    )


def numbers(found: Any) -> list[int]:
    return [json.loads(one.record.value)["n"] for one in found]


def all_of(one: Search) -> list[int]:
    found: list[int] = []
    while True:
        step = one.step(0.5)
        found += numbers(step.entries)
        if step.is_done:
            return found


def pages(data: Path, **query: Any) -> Iterator[list[int]]:
    """As a person goes from page to page."""
    after = ""
    while True:
        one = search(data, after=after, **query)
        yield all_of(one)
        if not one.has_more:
            return
        after = cursor_text(one.cursor)


def test_messages_are_shown_newest_first_over_all_partitions(data: Path) -> None:
    assert all_of(search(data, limit=5)) == [2999, 2998, 2997, 2996, 2995]
    assert all_of(search(data, limit=5, order=OLDEST)) == [0, 1, 2, 3, 4]
    assert all_of(search(data, limit=2, partitions=(1,))) == [2998, 2995]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("where", ["", ".even = true", "header.hundred = yes"])
def test_each_page_continues_where_the_one_before_it_ended(
    data: Path, order: str, where: str
) -> None:
    step = {"": 1, ".even = true": 2, "header.hundred = yes": 100}[where]
    wanted = [number for number in range(2700, COUNT) if number % step == 0]
    found = list(
        pages(data, order=order, where=where, start="@" + str(NOW_MS + 2_700_000), limit=40)
    )
    shown = [one for page in found for one in page]
    assert shown == (wanted if order == "oldest" else wanted[::-1])
    assert all(len(page) <= 40 for page in found)


def test_batches_that_cannot_match_are_skipped_and_counted(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders", config={"retention.ms": -1})
        for number in range(300):
            log.append_many("orders", [(None, b'{"n": %d}' % (number * 2 + one)) for one in (0, 1)])
    one = search(tmp_path / "data", clock=Clock(1.0), text='"n": 7}')
    steps = []
    while not steps or not steps[-1].is_done:
        steps.append(one.step(0.5))
    assert numbers(found for step in steps for found in step.entries) == [7]
    assert steps[-1].progress.record_count == 600
    # A step ends between two of such batches, too.
    assert len(steps) > 100


def test_a_page_without_conditions_reads_no_more_than_it_may_show(data: Path) -> None:
    one = search(data, limit=10)
    assert (
        one.step(1.0).progress.record_count == 30
    )  # Ten of each partition, of which ten are newest.


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"key": "key 77"}, [77]),
        ({"text": '"n": 1234,'}, [1234]),
        ({"header": "hundred", "order": OLDEST}, list(range(0, COUNT, 100))),
        ({"header": "hundred=no"}, []),
        ({"where": ".n >= 2998"}, [2999, 2998]),
        ({"where": "value ~ '\"n\": 299[89]'"}, [2999, 2998]),
        ({"text": "key 29", "where": ".even = true and .n < 2902"}, [2900, *range(298, 289, -2)]),
        ({"text": "n", "start": "-1"}, [2999, 2998, 2997]),
        ({"text": "n", "start": "@" + str(NOW_MS + 2_999_000)}, [2999]),
        ({"text": "n", "until": "1"}, [2, 1, 0]),
    ],
)
def test_conditions_find_by_key_text_header_path_offset_and_time(
    data: Path, query: dict[str, Any], wanted: list[int]
) -> None:
    assert all_of(search(data, **query)) == wanted[:50]


def test_a_search_says_how_far_it_is_and_may_be_stopped_at_any_step(data: Path) -> None:
    one = search(data, Clock(1.0), text="no such thing")
    steps = [one.step(0.5) for _ in range(8)]
    shares = [step.progress.record_count for step in steps]
    assert shares == sorted(shares)
    assert 0 < shares[-1] < COUNT
    assert not steps[-1].is_done
    assert steps[-1].progress.total == COUNT
    reached = cursor_text(one.cursor)
    one.close()
    one.close()
    rest = search(data, text='"n": 5,', after=reached)
    assert all_of(rest) == [5]


def test_cursors_and_partitions_of_links_are_read_or_refused() -> None:
    assert parse_cursor(cursor_text({0: 12, 2: 5})) == {0: 12, 2: 5}
    for wrong in ("tea", "0:x", "1:2,:", "²:3"):
        with pytest.raises(QueryError, match="after is PARTITION:OFFSET"):
            parse_cursor(wrong)
    assert parse_partitions("0, 2") == (0, 2)
    with pytest.raises(QueryError, match="partition is numbers"):
        parse_partitions("tea")


# Streams


def ask_for(browser: Browser, name: str, **query: str) -> Any:
    """An `Ask` as the application makes it."""
    from ottla.console.pages import Ask

    console = browser.console
    return Ask(
        place=console.place, state=console.state, now_ms=NOW_MS, path={"topic": name}, query=query
    )


def test_a_stream_of_a_search_sends_rows_progress_and_the_next_link(browser: Browser) -> None:
    with browser.client.stream(
        "GET", "/topics/orders/messages-stream?where=.tea+>+1&limit=2"
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = answer.read().decode()
    assert "event: messages" in events
    assert events.count("data: <tr>") == 2
    assert '"is_done": true' in events
    assert "event: end" in events
    wrong = browser.get("/topics/orders/messages-stream?where=((")
    assert wrong.status_code == 400


def test_a_browser_is_told_what_is_wrong_with_a_stream(browser: Browser) -> None:
    """It shows a page nothing of an answer with another status."""
    asked = {"accept": "text/event-stream"}
    for path in ("messages-stream?where=((", "messages-stream?partition=x"):
        answer = browser.get(f"/topics/orders/{path}", headers=asked)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.text.startswith('event: failed\ndata: "')
        assert "live page" not in answer.text


def test_a_fault_of_the_console_ends_a_stream_with_a_line_that_says_so(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(search: SearchStream) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(SearchStream, "step", fail)
    events = browser.get("/topics/orders/messages-stream?text=tea").text
    assert events.startswith('event: failed\ndata: "this page failed; the console')


@pytest.mark.parametrize("stream", ["tail", "search"])
def test_a_stream_ends_with_a_line_when_its_topic_is_deleted(
    broker: LocalBroker, browser: Browser, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    monkeypatch.setattr("ottla.console.views.streams.TAIL_STEP_S", 0.0)
    opened = {"tail": TailStream, "search": SearchStream}[stream](
        ask_for(browser, "orders", text="no such thing")
    )
    broker.log.delete_topic("orders")
    try:
        with pytest.raises(OttlaError, match=r"orders-\d: This broker has no such topic"):
            opened.step()
    finally:
        opened.close()


def test_a_tail_shows_what_comes_and_says_that_it_samples(
    broker: LocalBroker, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.console.views.streams.TAIL_STEP_S", 0.0)
    tail = TailStream(ask_for(browser, "orders"))
    try:
        assert tail.step()[-1].data["count"] == 0  # type: ignore[index]
        broker.produce("orders", "one more", partition=1)
        rows, rate = tail.step() or ()
        assert [one["value"]["text"] for one in rows.data["messages"]] == ["one more"]
        assert (rate.data["count"], rate.data["shown"]) == (1, 1)
        broker.log.append_many("orders", [b"%d" % number for number in range(1000)], partition=0)
        rows, rate = tail.step() or ()
        assert (rate.data["count"], rate.data["shown"]) == (1000, 25)
        assert rows.data["messages"][0]["value"]["text"] == "999"
    finally:
        tail.close()


def test_a_search_that_is_stopped_in_the_middle_leaves_no_connection(
    broker: LocalBroker, browser: Browser
) -> None:
    broker.log.append_many("orders", [b"%d" % number for number in range(5000)], partition=0)
    stream = SearchStream(ask_for(browser, "orders", text="no such thing"))
    stream._search._clock = Clock(1.0)
    assert not stream.step()[-1].data["is_done"]  # type: ignore[index]
    stream.close()
    assert browser.json("/topics/orders")["records"] == 5006
