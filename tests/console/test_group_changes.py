"""Groups that are reset and deleted, and transactions that are aborted: previews, and commands."""

from typing import Any
from urllib.parse import urlencode

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.console.views.group_changes import place_text
from ottla.testing import LocalBroker
from tests.console.asking import Browser
from tests.console.test_people import HOSTILE, done, preview, run

ORDERS = [TopicPartition("orders", index) for index in range(2)]


def offsets_of(broker: LocalBroker, group: str = "billing") -> dict[TopicPartition, int]:
    with ottla.Admin(broker.log) as admin:
        return {place: one.offset for place, one in admin.group_offsets(group).items()}


def commit(broker: LocalBroker, group: str, *offsets: int) -> None:
    with ottla.Admin(broker.log) as admin:
        admin.alter_group_offsets(group, dict(zip(ORDERS, offsets, strict=False)))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, ""),
        ({"kind": "beginning"}, "beginning"),
        ({"kind": "current", "offset": "5"}, "current"),
        ({"kind": "offset", "offset": " 5 "}, "5"),
        ({"kind": "shift", "shift": "5"}, "+5"),
        ({"kind": "shift", "shift": "-5"}, "-5"),
        ({"kind": "ago", "ago": "2h"}, "2h"),
        ({"kind": "time", "time": "2026-01-31T12:00"}, "@2026-01-31T12:00"),
        ({"kind": "time", "time": "2026-01-31T12:00", "zone": "+01:00"}, "@2026-01-31T12:00+01:00"),
        ({"kind": "end", "to": "earliest"}, "earliest"),
    ],
)
def test_a_form_names_the_place_as_the_command_takes_it(fields: dict[str, str], text: str) -> None:
    assert place_text(fields) == text


@pytest.mark.parametrize("fields", [{"kind": "offset"}, {"kind": "moon"}])
def test_a_form_without_the_place_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(UserError):
        place_text(fields)


pytestmark = pytest.mark.slow


# Resets


@pytest.mark.parametrize(
    ("fields", "after", "lines"),
    [
        ({"kind": "end"}, (3, 3), ["It skips 3 offsets that it has not read."]),
        ({"kind": "beginning"}, (0, 0), ["It reads 3 offsets again."]),
        ({"kind": "offset", "offset": "1"}, (1, 1), ["It reads 1 offset again."]),
        ({"kind": "shift", "shift": "-1"}, (0, 1), ["It reads 2 offsets again."]),
        ({"kind": "end", "topics": "orders:0"}, (3, 2),
         ["It skips 2 offsets that it has not read."]),
        ({"kind": "ago", "ago": "2h"}, (0, 0), ["It reads 3 offsets again."]),
        ({"kind": "time", "time": "2100-01-01T00:00", "zone": "+01:00"}, (3, 3),
         ["It skips 3 offsets that it has not read."]),
        ({"kind": "current"}, (1, 2), ["Nothing changes."]),
    ],
)  # fmt: skip
def test_a_reset_is_what_its_preview_and_its_command_say(
    broker: LocalBroker, browser: Browser, fields: dict[str, str], after: Any, lines: list[str]
) -> None:
    commit(broker, "billing", 1, 2)
    shown = preview(browser, "/group/reset", name="billing", **fields)
    assert shown["lines"] == lines
    rows = [row for row in shown["plan"]["rows"] if row[:2] == ["orders", 0]]
    if rows:
        assert rows[0][2:7:2] == [1, "" if after[0] == 1 else f"{after[0] - 1:+}", 3 - after[0]]
        assert rows[0][5] == 2
    run(shown)
    by_command = offsets_of(broker)
    assert by_command == dict(zip(ORDERS, after, strict=True))
    commit(broker, "billing", 1, 2)
    assert "changed" in done(browser, "/group/reset", name="billing", **fields).text
    assert offsets_of(broker) == by_command


def test_a_reset_of_a_group_with_members_is_shown_and_not_offered(
    broker: LocalBroker, browser: Browser
) -> None:
    settings = {"group.instance.id": "till-1"}
    with ottla.Consumer(broker.address, "billing", settings=settings) as consumer:
        consumer.subscribe("orders")
        consumer.poll(10)
        shown = preview(browser, "/group/reset", name="billing", kind="beginning")
        assert "stop them first" in shown["problem"]
        assert shown["confirm"] == ""
        deletion = preview(browser, "/group/delete", name="billing")
        assert ("stop them first" in deletion["problem"], deletion["confirm"]) == (True, "")
        forgetting = preview(browser, "/group/delete", name="billing", topics="orders:0")
        assert forgetting["problem"] == "Members read orders; stop them first."
        text = browser.text("/group?name=billing")
        assert "static: till-1" in text
        assert "/group/reset" not in text


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("name=nobody", 404, "there is no group nobody"),
        ("name=billing&kind=offset", 400, "fill in the field for an offset"),
        ("name=billing&kind=time&time=noon", 400, "a time is 2026-01-31T12:00:00"),
        ("name=billing&kind=end&topics=orders:9", 404, "there is no partition 9"),
        ("name=billing&to=soon", 400, "a place is beginning"),
    ],
)
def test_a_mistake_in_a_reset_is_said_beside_its_form(
    browser: Browser, query: str, status: int, words: str
) -> None:
    answer = browser.get(f"/group/reset?{query}")
    assert (answer.status_code, words in answer.text) == (status, True)


# Deletions


@pytest.mark.parametrize("name", ["billing", HOSTILE, "b*", "--yes"])
def test_a_group_is_deleted_after_its_preview_or_by_its_command(
    broker: LocalBroker, browser: Browser, name: str
) -> None:
    commit(broker, "bystander", 1)
    commit(broker, name, 1, 2)
    shown = preview(browser, "/group/delete", name=name)
    assert shown["lines"][0] == "2 committed offsets of 1 topic are lost."
    assert shown["plan"]["rows"] == [["orders", 0, 1, 2], ["orders", 1, 2, 1]]
    assert shown["typed"] == ("delete" if name == HOSTILE else name)
    address = f"/group/delete?{urlencode({'name': name})}"
    assert browser.confirm(address, browser.get(address), typed="x").status_code == 400
    assert "is deleted" in done(browser, "/group/delete", name=name).text
    assert name not in {one["name"] for one in browser.json("/groups")["groups"]}
    commit(broker, name, 1, 2)
    run(shown)
    left = {one["name"] for one in browser.json("/groups")["groups"]}
    assert "bystander" in left
    assert name not in left


def test_offsets_of_a_topic_are_deleted_after_their_preview_or_by_their_command(
    broker: LocalBroker, browser: Browser
) -> None:
    commit(broker, "billing", 1, 2)
    shown = preview(browser, "/group/delete", name="billing", topics="orders:1")
    assert shown["plan"]["rows"] == [["orders", 1, 2, 1]]
    run(shown)
    assert offsets_of(broker) == {ORDERS[0]: 1}
    answer = browser.get("/group/delete?name=billing&topics=orders:1")
    assert (answer.status_code, "committed nothing there" in answer.text) == (400, True)
    assert (
        "1 offset deleted" in done(browser, "/group/delete", name="billing", topics="orders").text
    )
    assert browser.get("/group/delete?name=billing").status_code == 404


# Transactions


def test_an_open_transaction_is_aborted_by_its_id(broker: LocalBroker, browser: Browser) -> None:
    with ottla.Producer(broker.address, settings={"transactional.id": HOSTILE}) as producer:
        producer.begin_transaction()
        producer.send("orders", b"open", partition=1)
        producer.flush()
        (row,) = browser.json("/producers?topic=orders&partition=1")["producers"]
        assert row["first_offset"] == 3
        shown = preview(browser, "/transactions/abort", transactional_id=HOSTILE)
        assert shown["plan"]["rows"] == [["orders", 1]]
        assert "It began at" in shown["figures"][0]
        place = {"topic": "orders", "partition": "1", "first_offset": "3"}
        (warning,) = preview(browser, "/transactions/abort", **place)["warnings"]
        assert "It does not hang" in warning
        run(shown)
        assert browser.json("/transactions")["open"] == []
        with pytest.raises(ottla.UserError):
            producer.commit_transaction()
    shown = preview(browser, "/transactions/abort", transactional_id=HOSTILE)
    assert "Nothing is open to abort" in shown["lines"][0]
    assert preview(browser, "/transactions/abort", **place)["problem"].startswith("No transaction")
    assert browser.get("/transactions/abort?transactional_id=nobody").status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/producers", 200),
        ("/producers?topic=orders", 200),
        ("/producers?topic=orders&partition=9", 404),
        ("/producers?topic=nowhere", 404),
        ("/producers?topic=orders&partition=x", 400),
    ],
)
def test_producers_of_a_partition(browser: Browser, path: str, status: int) -> None:
    assert browser.get(path).status_code == status
