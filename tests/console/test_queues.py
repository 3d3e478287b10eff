"""Queues: share groups with what is in flight, and their changes."""

import pytest

import ottla
from ottla.testing import LocalBroker
from tests.console.asking import Browser
from tests.console.test_people import done, preview, run

pytestmark = pytest.mark.slow
ORDERS = [ottla.TopicPartition("orders", index) for index in range(2)]


def begin(broker: LocalBroker, *starts: int) -> None:
    with ottla.Admin(broker.log) as admin:
        admin.alter_share_group_offsets("jobs", dict(zip(ORDERS, starts, strict=False)))


def starts_of(broker: LocalBroker) -> list[int | None]:
    with ottla.Admin(broker.log) as admin:
        return [one.start_offset for one in admin.share_group_offsets("jobs").values()]


def test_a_queue_shows_its_places_members_records_in_flight_and_settings(
    broker: LocalBroker, browser: Browser
) -> None:
    assert browser.json("/queues")["queues"] == []
    begin(broker, 1, 0)
    with ottla.Admin(broker.log) as admin:
        lock = {"share.record.lock.duration.ms": "20000"}
        admin.alter_configs(ottla.ResourceKind.GROUP, "jobs", lock)
    (row,) = browser.json("/queues")["queues"]
    assert (row["name"], row["lag"], row["topics"]) == ("jobs", 5, ["orders"])
    settings = {"share.acknowledgement.mode": "explicit"}
    with ottla.ShareConsumer(broker.address, "jobs", settings=settings) as consumer:
        consumer.subscribe("orders")
        record = consumer.poll(30)
        assert record is not None
        found = browser.json("/queue?name=jobs")
        assert (found["state"], len(found["members"])) == ("Stable", 1)
        assert found["with_members"] == sum(one["in_flight"] for one in found["partitions"]) > 0
        ranges = [one for one in found["in_flight"] if one["partition"] == record.partition]
        assert ranges[0]["first"] == record.offset
        assert (ranges[0]["state"], ranges[0]["delivery_count"]) == ("with a member", 1)
        own = {one["name"]: one["value"] for one in found["settings"] if one["is_own"]}
        assert own == {"share.record.lock.duration.ms": "20000"}
        assert "stop them first" in preview(browser, "/group/delete", name="jobs")["problem"]
        assert "/group/delete" not in browser.text("/queue?name=jobs")
    assert "Set start offsets" in browser.text("/queue?name=jobs")


def test_a_queue_is_set_forgotten_and_deleted_as_the_preview_and_its_command_say(
    broker: LocalBroker, browser: Browser
) -> None:
    begin(broker, 1, 2)
    shown = preview(browser, "/group/reset", name="jobs", kind="beginning")
    assert shown["lines"] == ["It reads 3 offsets again."]
    run(shown)
    assert starts_of(broker) == [0, 0]
    begin(broker, 1, 2)
    assert "changed" in done(browser, "/group/reset", name="jobs", kind="beginning").text
    assert starts_of(broker) == [0, 0]
    assert "deleted" in done(browser, "/group/delete", name="jobs", topics="orders").text
    assert starts_of(broker) == []
    begin(broker, 1, 2)
    run(preview(browser, "/group/delete", name="jobs"))
    assert browser.json("/queues")["queues"] == []


def test_a_group_of_another_protocol_is_no_queue(browser: Browser) -> None:
    answer = browser.get("/queue?name=billing")
    assert answer.status_code == 404
    assert "there is no share group billing" in answer.text


def test_a_topic_that_a_queue_reads_is_shown_and_changed_like_others(
    broker: LocalBroker, browser: Browser
) -> None:
    begin(broker, 0, 0)
    row = browser.json("/topics-figures?names=orders")["topics"]["orders"]
    assert (row["lag_group"], row["lag"]) == ("jobs", 6)
    assert browser.get("/topics/orders").status_code == 200
    assert preview(browser, "/topics/orders/empty", before="end")["problem"] == ""
