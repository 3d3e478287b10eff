"""Every page over a broker, over its directory, and over a directory at rest."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.files import OsFileSystem
from ottla.console.contents import WHOLE_SIZE, shown
from ottla.storage.directory.owner_note import Owner, remove_owner_note, write_owner_note
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, PLACES, Browser, console_over, fill


@pytest.fixture(scope="module")
def at_rest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("at-rest") / "data"
    with ottla.open(path, FEW_LOGS) as log:
        fill(log)
    return path


@pytest.mark.slow
def test_every_page_of_a_broker_is_there_and_is_json_too(browser: Browser) -> None:
    for place in PLACES:
        answer = browser.get(place)
        assert answer.status_code == 200, (place, answer.text)
        assert answer.headers["content-type"].startswith("text/html")
        assert isinstance(browser.json(place), dict), place
        as_asked = browser.get(place, headers={"accept": "application/json"})
        assert as_asked.headers["content-type"].startswith("application/json")


@pytest.mark.slow
def test_every_page_of_a_directory_is_read_beside_a_running_broker(broker: LocalBroker) -> None:
    with console_over(broker.directory) as browser:
        for place in PLACES:
            answer = browser.get(place)
            assert answer.status_code == 200, (place, answer.text)
        assert browser.json("/")["has_broker"]


@pytest.mark.slow
def test_every_page_of_a_directory_at_rest_is_read_from_files_alone(at_rest: Path) -> None:
    before = {one: one.stat().st_mtime_ns for one in at_rest.rglob("*")}
    with console_over(at_rest) as browser:
        for place in PLACES:
            answer = browser.get(place)
            assert answer.status_code == 200, (place, answer.text)
        assert not browser.json("/")["has_broker"]
        assert "No broker runs here" in browser.text("/")
        group = browser.json("/group?name=billing")
        assert (group["lag"], group["partitions"][0]["committed"]) == (2, 1)
    assert {one: one.stat().st_mtime_ns for one in at_rest.rglob("*")} == before


def test_the_list_of_topics_has_sizes_at_once_and_figures_when_asked(browser: Browser) -> None:
    (row,) = browser.json("/topics")["topics"]
    assert (row["name"], row["partitions"], row["lag"]) == ("orders", 2, None)
    assert row["size"] > 0
    found = browser.json("/topics-figures?names=orders")["topics"]["orders"]
    assert (found["records"], found["lag"], found["lag_group"]) == (6, 2, "billing")
    (row,) = browser.json("/topics?figures=1")["topics"]
    assert (row["records"], row["lag"]) == (6, 2)


def test_deleted_records_are_no_lag_and_partitions_that_were_not_committed_are_counted(
    broker: LocalBroker, browser: Browser
) -> None:
    with ottla.Admin(broker.address) as admin:
        admin.delete_records({ottla.TopicPartition("orders", 0): 2})
        admin.create_partitions("orders", 4)
    asked = ("/topics/orders", "/topics-figures?names=orders", "/group?name=billing", "/groups")
    topic, figures, group, groups = map(browser.json, asked)
    (row,) = groups["groups"]
    listed = figures["topics"]["orders"]
    partitions = group["partitions"]
    assert partitions[0]["start_offset"] == 2 > partitions[0]["committed"]
    lag = sum(
        one["end_offset"] - max(one["committed"], one["start_offset"])
        for one in partitions
        if one["committed"] is not None
    )
    assert [one["lag"] for one in (topic, listed, group, row)] == [lag] * 4
    count = len([one for one in partitions if one["committed"] is None])
    assert count >= 2
    assert [topic["lag_uncommitted"], listed["lag_uncommitted"]] == [count] * 2
    assert [group["uncommitted"], row["uncommitted"]] == [count] * 2
    assert "not committed" in browser.text("/topics/orders")


@pytest.mark.slow
def test_a_list_asks_two_questions_however_many_topics_there_are(
    broker: LocalBroker, browser: Browser
) -> None:
    """What is shown of rows in view a script asks for later: each list is one page of it."""
    for number in range(30):
        broker.create_topic(f"topic-{number}", partitions=2)
    apis = ("metadata", "describe_log_dirs", "list_offsets", "list_groups", "fetch")
    browser.json("/topics")
    before = [broker.requests(api) for api in apis]
    assert len(browser.json("/topics")["topics"]) == 31
    asked = [broker.requests(api) - n for api, n in zip(apis, before, strict=True)]
    # The broker begins a request twice that may take long, and both are counted.
    assert max(asked[:2]) <= 2
    assert asked[2:] == [0, 0, 0]


def test_topics_are_filtered_sorted_and_paged_by_links(
    broker: LocalBroker, browser: Browser
) -> None:
    broker.create_topic("bills", partitions=5)
    names = [one["name"] for one in browser.json("/topics?sort=partitions")["topics"]]
    assert names == ["bills", "orders"]
    assert [one["name"] for one in browser.json("/topics?q=ILL")["topics"]] == ["bills"]
    assert [one["name"] for one in browser.json("/topics?per=1&page=2")["topics"]] == ["orders"]
    internal = browser.json("/topics?internal=1")["topics"]
    assert "__consumer_offsets" in [one["name"] for one in internal]


@pytest.mark.slow
def test_the_picture_of_a_log_has_segments_to_scale_and_the_words_of_explain(
    broker: LocalBroker, browser: Browser
) -> None:
    broker.create_topic(
        "teas", config={"segment.bytes": 2000, "retention.ms": 3_600_000, "index.interval.bytes": 1}
    )
    for number in range(30):
        broker.produce("teas", "x" * 400, timestamp_ms=broker.clock.now_ms() - 60_000 * number)
    found = browser.json("/topics/teas/log/0")
    shapes = found["picture"]["shapes"]
    assert len(shapes) == found["picture"]["segment_count"] > 3
    assert sum(one["width"] for one in shapes) == pytest.approx(1000, abs=0.5)
    scale = {round(one["width"] / one["size"], 3) for one in shapes}
    assert max(scale) - min(scale) < 0.02
    assert shapes[-1]["part"] == "active"
    assert all(one["why"].startswith("within retention.ms") for one in shapes)
    markers = {one["name"]: one["offset"] for one in found["picture"]["markers"]}
    assert markers == {
        "log start": 0,
        "last stable offset": 30,
        "high watermark": 30,
        "log end": 30,
    }
    html = browser.text("/topics/teas/log/0")
    assert "why: within retention.ms" in html
    assert 'class="active"' in html


def test_the_picture_of_a_compacted_log_says_what_is_clean_and_what_is_dirty(
    broker: LocalBroker, browser: Browser
) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": 2000, "min.cleanable.dirty.ratio": 0.9}
    broker.create_topic("names", config=config)
    for number in range(30):
        broker.produce("names", "x" * 400, key=f"{number % 3}")
    found = browser.json("/topics/names/log/0")
    parts = [one["part"] for one in found["picture"]["shapes"]]
    assert parts[0] == "dirty"
    assert parts[-1] == "active"
    assert "cleaner point" in {one["name"] for one in found["picture"]["markers"]}
    assert found["picture"]["shapes"][0]["cleaning"] == "would be compacted by a pass now"
    assert any("compacted" in one for one in found["remarks"])
    assert found["compaction_changes"]


def test_an_open_transaction_is_stuck_in_the_picture_and_first_on_its_page(
    broker: LocalBroker, browser: Browser
) -> None:
    settings = {"transactional.id": "payments-1", "transaction.timeout.ms": 60_000}
    with ottla.Producer(broker.address, settings=settings) as producer, producer.transaction():
        producer.send("orders", b"more tea", partition=0).result()
        picture = browser.json("/topics/orders/log/0")["picture"]
        (open_one,) = browser.json("/transactions")["open"]
        (of_topic,) = browser.json("/transactions?topic=orders&everywhere=1")["open"]
    markers = {one["name"]: one["offset"] for one in picture["markers"]}
    assert (markers["last stable offset"], markers["high watermark"]) == (3, 4)
    assert (open_one["verdict"], open_one["transactional_id"]) == ("open", "payments-1")
    assert (of_topic["first_offset"], len(of_topic["ways_out"])) == (3, 2)


def test_a_log_of_many_segments_is_drawn_with_neighbours_as_one() -> None:
    from ottla.console.pictures import MOST_SHAPES, Shape, _joined

    def shape(number: int) -> Shape:
        return Shape(
            part="kept", x=0, width=0, base_offset=number, next_offset=number + 1, size=100,
            segment_count=1, goes="later", why="within retention.ms", cleaning="",
            largest_timestamp_ms=number,
        )  # fmt: skip

    found = _joined([shape(number) for number in range(5000)], False)
    assert len(found) <= MOST_SHAPES + 1
    assert sum(one.segment_count for one in found) == 5000
    assert (found[0].base_offset, found[-1].next_offset) == (0, 5000)


def test_a_group_shows_members_lag_and_its_lag_over_time(
    broker: LocalBroker, browser: Browser
) -> None:
    (row,) = browser.json("/groups")["groups"]
    assert (row["name"], row["lag"], row["state"]) == ("billing", 2, "Empty")
    browser.json("/group?name=billing")
    broker.produce("orders", "more", partition=0)
    found = browser.json("/group?name=billing")
    assert [one["lag"] for one in found["samples"]] == [2, 3]
    assert found["chart"]["lines"]


def test_a_reset_is_shown_before_it_is_done(broker: LocalBroker, browser: Browser) -> None:
    preview = browser.json("/group/reset?name=billing&to=latest")
    (planned,) = preview["planned"]
    assert (planned["before"], planned["after"], planned["lag"]) == (1, 3, 0)
    assert browser.json("/group?name=billing")["partitions"][0]["committed"] == 1
    answer = browser.change("/group/reset", {"name": "billing", "to": "latest"})
    assert "1 offset changed" in answer.text
    assert browser.json("/group?name=billing")["partitions"][0]["committed"] == 3
    back = browser.change("/group/reset", {"name": "billing", "to": "-2"})
    assert back.status_code == 200
    assert browser.json("/group?name=billing")["partitions"][0]["committed"] == 1
    wrong = browser.get("/group/reset?name=billing&to=somewhere")
    assert wrong.status_code == 400
    assert "a place is beginning, end, " in wrong.text


def test_a_message_is_produced_and_shown_whole(browser: Browser) -> None:
    fields = {
        "key": "table 9", "value": '{"tea": [1,\r\n2]}', "headers": "waiter=Eva\r\nurgent",
        "partition": "1",
    }  # fmt: skip
    answer = browser.change("/topics/orders/produce", fields)
    assert "sent to orders-1" in answer.text
    found = browser.json(answer.url.path)
    assert found["key"]["text"] == "table 9"
    assert json.loads(found["value"]["text"]) == {"tea": [1, 2]}
    assert [(one["name"], one["value"]["text"]) for one in found["headers"]] == [
        ("waiter", "Eva"),
        ("urgent", "null"),
    ]
    null = browser.change("/topics/orders/produce", {"key": "table 9", "null_value": "1"})
    assert browser.json(null.url.path)["value"]["kind"] == "null"
    download = browser.get(f"{answer.url.path}?download=value")
    assert download.content == b'{"tea": [1,\n2]}'
    assert download.headers["content-disposition"].startswith("attachment")


def test_a_setting_is_changed_and_taken_back(browser: Browser) -> None:
    answer = browser.change("/topics/orders/settings", {"setting": "retention.ms", "value": "7d"})
    assert "retention.ms is 604800000 now" in answer.text
    (own,) = [
        one
        for one in browser.json("/topics/orders/settings")["settings"]
        if one["name"] == "retention.ms"
    ]
    assert (own["value"], own["origin"]) == ("604800000", "its own")
    assert own["effect"]
    browser.change("/topics/orders/settings", {"setting": "retention.ms", "unset": "1"})
    names = [one["name"] for one in browser.json("/topics/orders/settings")["settings"]]
    assert "retention.ms" not in names
    wrong = browser.change("/topics/orders/settings", {"setting": "retention.ms", "value": "tea"})
    assert wrong.status_code == 400


def test_a_directory_at_rest_is_opened_for_one_change(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data", FEW_LOGS) as log:
        fill(log)
    with console_over(tmp_path / "data") as browser:
        answer = browser.change("/topics/orders/produce", {"value": "tea", "partition": "0"})
        assert answer.status_code == 200, answer.text
        assert browser.json("/topics/orders/messages/0/3")["value"]["text"] == "tea"
        with ottla.open(tmp_path / "data") as log:
            assert log.offsets("orders")[0] == (0, 4)


NOT_THERE = (
    ("/topics/order", 404, "did you mean orders?"),
    ("/topics/orders/log/7", 404, "there is no partition 7"),
    ("/topics/orders/log/x", 404, "there is no partition x"),
    ("/topics/orders/messages?where=((", 400, "begins with no field"),
    ("/topics/orders/messages?from=tea", 400, "from is beginning"),
    ("/topics/orders/messages?partition=9", 400, "partition=9: partition is"),
    ("/topics/order/messages", 404, "did you mean orders?"),
    ("/topics/order/tail", 404, "did you mean orders?"),
    ("/topics/order/tail-stream", 404, "did you mean orders?"),
    ("/topics/order/messages-stream?text=tea", 404, "did you mean orders?"),
    ("/topics/orders/messages/0/99", 404, "offset 99"),
    ("/group?name=nobody", 404, "nobody"),
    ("/nowhere", 404, "no page"),
)


def test_indents_do_not_make_a_large_page_of_a_small_value() -> None:
    value = b"[" * 500 + b"1," * 100_000 + b"1" + b"]" * 500
    assert len(shown(value, WHOLE_SIZE, is_pretty=True)["text"]) == len(value)
    assert shown(b"[1]", is_pretty=True)["text"] == "[\n  1\n]"


def test_a_large_text_is_cut_where_its_page_says_so_and_json_never_in_the_middle() -> None:
    text = shown(b"tea " * 500, size=10, is_pretty=True)
    assert (text["kind"], text["text"], text["is_cut"]) == ("text", "tea tea te", True)
    document = shown(b'{"tea":1}', size=4, is_pretty=True)
    assert (document["kind"], json.loads(document["text"])) == ("json", {"tea": 1})


def test_the_overview_counts_the_topics_of_the_list_and_internal_ones_apart(
    browser: Browser,
) -> None:
    found = browser.json("/")
    assert (found["topic_count"], found["internal_count"]) == (2, 1)
    assert "+ 1 internal" in browser.text("/")


@pytest.mark.slow
def test_what_is_not_there_is_one_line_and_a_status(browser: Browser) -> None:
    for path, status, words in NOT_THERE:
        answer = browser.get(path)
        assert answer.status_code == status, path
        assert words in answer.text, path
        as_json = browser.get(path, headers={"accept": "application/json"})
        assert as_json.status_code == status, path
        assert words in as_json.text, path


def test_a_page_of_what_is_not_there_keeps_the_navigation_and_the_target(
    browser: Browser, broker: LocalBroker
) -> None:
    for path in ("/topics/order", "/group?name=nobody", "/nowhere"):
        page = browser.get(path).text
        assert '<nav aria-label="Main">' in page, path
        assert broker.address in page, path


@pytest.mark.usefixtures("without_pauses")
def test_a_broker_that_is_gone_is_a_page_that_says_so(
    browser: Browser, broker: LocalBroker
) -> None:
    broker.crash()
    for page in ("/topics", "/topics/orders/messages"):
        answer = browser.get(page)
        assert answer.status_code == 502
        assert "Broker not reached" in answer.text
        assert f"{broker.address}: Connection refused</p>" in answer.text
        assert f'<a href="{page}">Try again</a>' in answer.text


def jobs_of(browser: Browser) -> Any:
    return browser.json("/jobs")


def test_jobs_say_what_retention_and_the_cleaner_are_about_to_do(
    broker: LocalBroker, browser: Browser
) -> None:
    broker.create_topic("teas", config={"segment.bytes": 2000, "retention.bytes": 3000})
    for _ in range(20):
        broker.produce("teas", "x" * 400)
    (going,) = jobs_of(browser)["retention"]
    assert (going["topic"], going["segments"] > 2) == ("teas", True)
    assert jobs_of(browser)["directories"][0]["state"] == "served"


def test_jobs_say_how_far_a_start_and_a_mirror_are(at_rest: Path) -> None:
    files = OsFileSystem()
    lock = files.lock(str(at_rest / ".lock"))
    assert lock is not None
    doing = "orders-0 (1 of 2): offset 5 of 9, 1 kB"
    try:
        with console_over(at_rest) as browser:
            write_owner_note(
                files, str(at_rest), Owner(pid=os.getpid(), command="mirror", doing=doing)
            )
            assert doing in browser.text("/jobs")
            (found,) = jobs_of(browser)["directories"]
            assert found["state"] == "in use by ottla mirror"
            remove_owner_note(files, str(at_rest))
            assert jobs_of(browser)["directories"][0]["state"] == "held"
    finally:
        lock.release()


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b"[" * 950 + b"]" * 950,
        b'{"a": ' + b"1" * 5000 + b"}",
        b'{"\\ud800": "\\udfff"}',
        b"\xff\x00" * 100_000,
    ],
    ids=["deep", "almost too deep", "a long number", "half a character", "bytes"],
)
def test_a_value_that_is_made_to_break_a_page_is_shown(
    broker: LocalBroker, browser: Browser, value: bytes
) -> None:
    place = broker.log.append("orders", value, b"K" * 100_000, partition=0)
    page = f"/topics/orders/messages/0/{place.offset}"
    assert value[:1].decode("latin-1") in "[{\xff"
    assert "partition 0" in browser.text(page).lower()
    assert browser.json(page)["value"]["size"] == len(value)
    assert browser.get(f"{page}?download=value").content == value
    for found in ("where=.a+%3D+1", "where=not+.a", "text=K"):
        assert browser.get(f"/topics/orders/messages?{found}").status_code == 200


def test_records_of_times_that_no_calendar_has_are_shown_beside_the_others(tmp_path: Path) -> None:
    times_ms = [-(2**63), -62_135_596_800_001, 0, 1_700_000_000_000_000, 2**63 - 1]
    with ottla.open(tmp_path / "data", FEW_LOGS) as log:
        log.create_topic("far")
        for time_ms in times_ms:
            batch = ottla.RecordBatchBuilder()
            batch.append(b"k", b"v", time_ms)
            log.append_batch("far", 0, batch)
    with console_over(tmp_path / "data") as browser:
        pages = "/topics/far"
        places = [
            "/topics?figures=1", pages, f"{pages}/log/0", f"{pages}/messages?order=oldest",
            *(f"{pages}/messages/0/{one}" for one in range(len(times_ms))),
        ]  # fmt: skip
        for place in places:
            answer = browser.get(place)
            assert answer.status_code == 200, (place, answer.text)
