"""Topics that are created, grown, emptied, copied and deleted through the console."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.console.runs import CancelledError, Run, Runs, RunState, new_run
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, HOST, Browser, console_over, fill, run_shown
from tests.console.test_signing_in import USERS, WITHOUT_USER, secured, sign_in
from tests.support.patience import wait_until

__all__ = ["secured"]


@pytest.fixture
def at_rest(tmp_path: Path) -> Iterator[Browser]:
    """A console over a directory that no broker serves."""
    with ottla.open(tmp_path / "data", FEW_LOGS) as log:
        fill(log)
    with console_over(tmp_path / "data") as found:
        yield found


def preview(browser: Browser, path: str, **fields: str) -> Any:
    """The preview of a change, as a program gets it."""
    form = {"form_token": browser.form_token(), **fields}
    headers = {"accept": "application/json", "origin": HOST}
    return browser.client.post(path, data=form, headers=headers).json()


def topics_of(broker: LocalBroker) -> list[str]:
    return sorted(one for one in broker.log.topics() if not one.startswith("__"))


def state_of(broker: LocalBroker, topic: str) -> tuple[object, ...]:
    """What a change of a topic may change."""
    with ottla.Admin(broker.log) as admin:
        places = admin.places([topic])
        return admin.topic_overrides([topic])[topic], admin.bounds(places)


# Create


def test_a_topic_is_created_with_its_settings(broker: LocalBroker, browser: Browser) -> None:
    form = browser.text("/create-topic")
    assert "default: 604800000 (7 d)" in form
    assert "Treatment of old segments" in form
    fields = {
        "name": "teas", "partitions": "3", "replicas": "1", "retention.ms": "2d",
        "cleanup.policy": "compact,delete", "preallocate": "", "segment.bytes": "1Mi",
    }  # fmt: skip
    shown = preview(browser, "/create-topic", **fields)
    assert shown["lines"] == ["It has 3 partitions.", "Each is on 1 broker."]
    assert ["retention.ms", "172800000 (2 d)", "604800000 (7 d)"] in shown["plan"]["rows"]
    assert topics_of(broker) == ["orders"]
    assert "teas is created" in browser.change("/create-topic", fields).text
    assert state_of(broker, "teas") == (
        {
            "retention.ms": "172800000",
            "cleanup.policy": "compact,delete",
            "segment.bytes": "1048576",
        },
        {ottla.TopicPartition("teas", index): (0, 0) for index in range(3)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "orders"}, "topic orders exists"),
        ({"name": "a b"}, "topic a b: "),
        ({"name": "<script>alert(1)</script>"}, "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ({"name": "a\nb\u202e"}, "a\\nb".replace("\\n", "\n") + "\\u202e"),
        ({"name": "teas", "partitions": "0"}, "a whole number from 1"),
        ({"name": "teas", "partitions": "9" * 5000}, "a whole number from 1"),
        ({"name": "teas", "replicas": "3"}, "INVALID_REPLICATION_FACTOR"),
        ({"name": "teas", "retention.ms": "5days"}, "did you mean 5d?"),
        ({"name": "teas", "cleanup.policy": "keep"}, "one of compact, delete"),
        ({"name": "teas", "retention.ms": "5", "segment.bytes": "tea"}, "whole number of bytes"),
    ],
)
def test_a_form_that_is_wrong_is_shown_again_with_what_is_wrong(
    broker: LocalBroker, browser: Browser, fields: dict[str, str], words: str
) -> None:
    answer = browser.post("/create-topic", fields)
    assert answer.status_code == 400
    assert words in answer.text
    assert "<script>alert" not in answer.text
    assert topics_of(broker) == ["orders"]


# Grow


def test_partitions_are_added_after_their_effect_on_keys_is_told(
    broker: LocalBroker, browser: Browser
) -> None:
    shown = preview(browser, "/topics/orders/grow", count="6")
    assert shown["lines"][0] == "orders grows from 2 partitions to 6."
    assert shown["warnings"][0].startswith("About 67% of all keys go to another partition")
    assert "orders grew from 2 to 6 partitions" in browser.change(
        "/topics/orders/grow", {"count": "6"}
    ).text  # fmt: skip
    with ottla.Admin(broker.log) as admin:
        assert len(admin.partitions(["orders"])["orders"]) == 6
    for wrong in ("6", "0", "-1", "x", "1e9", "9" * 5000):
        assert browser.post("/topics/orders/grow", {"count": wrong}).status_code == 400


def test_the_share_of_keys_that_move_is_that_of_the_partitioner(browser: Browser) -> None:
    from ottla.record.partitioner import partition_for_key

    keys = [b"key %d" % number for number in range(4000)]
    moved = sum(partition_for_key(one, 2) != partition_for_key(one, 5) for one in keys)
    said = preview(browser, "/topics/orders/grow", count="5")["warnings"][0]
    assert abs(moved / len(keys) - 0.8) < 0.03
    assert said.startswith("About 80% ")


# Empty


def test_records_are_deleted_up_to_a_place_and_no_further(
    broker: LocalBroker, browser: Browser
) -> None:
    shown = browser.post("/topics/orders/empty", {"before": "end"})
    assert "Group billing has not read some of these records" in shown.text
    broker.produce("orders", "late", partition=0)
    assert browser.confirm("/topics/orders/empty", shown, typed="order").status_code == 400
    done = browser.confirm("/topics/orders/empty", shown)
    assert "6 records deleted" in done.text
    bounds = state_of(broker, "orders")[1]
    assert bounds == {("orders", 0): (3, 4), ("orders", 1): (3, 3)}
    assert "has no record before 1" in browser.post("/topics/orders/empty", {"before": "1"}).text


def test_records_are_deleted_by_age(broker: LocalBroker, browser: Browser) -> None:
    with ottla.Admin(broker.log) as admin:
        admin.create_topic("old")
    builder = ottla.RecordBatchBuilder()
    builder.append(None, b"tea", broker.clock.now_ms() - 86_400_000)
    broker.log.append_batch("old", 0, builder)
    broker.produce("old", "new")
    assert "1 record deleted" in browser.change("/topics/old/empty", {"before": "2h"}).text
    assert state_of(broker, "old")[1] == {("old", 0): (1, 2)}


@pytest.mark.parametrize("before", ["99", "tea", "@tomorrow", "<b>", "9" * 5000])
def test_a_place_that_is_none_deletes_nothing(
    broker: LocalBroker, browser: Browser, before: str
) -> None:
    answer = browser.post("/topics/orders/empty", {"before": before})
    assert answer.status_code == 400
    assert "<b>" not in answer.text.partition("<main")[2]


def test_a_compacted_topic_is_not_emptied(broker: LocalBroker, browser: Browser) -> None:
    broker.create_topic("names", config={"cleanup.policy": "compact"})
    broker.produce("names", "v", key="k")
    shown = preview(browser, "/topics/names/empty", before="end")
    assert "compacted only" in shown["problem"]
    assert shown["confirm"] == ""


# Delete


def test_a_topic_is_deleted_once_its_name_is_typed(broker: LocalBroker, browser: Browser) -> None:
    path = "/topics/orders/delete"
    shown = browser.get(path)
    assert "It has 6 records in " in shown.text
    assert "Group billing reads it" in shown.text
    for wrong in ("", "Orders", "orders2"):
        again = browser.confirm(path, shown, typed=wrong)
        assert again.status_code == 400
        assert "Type orders to confirm" in again.text
    assert topics_of(broker) == ["orders"]
    broker.produce("orders", "late")  # More records are lost, and it is still the same change.
    assert "orders is deleted" in browser.confirm(path, shown).text
    assert topics_of(broker) == []
    assert browser.get(path).status_code == 404


def test_what_is_no_longer_as_it_was_shown_is_shown_again(
    broker: LocalBroker, browser: Browser
) -> None:
    shown = browser.get("/topics/orders/delete")
    with ottla.Admin(broker.log) as admin:
        admin.create_partitions("orders", 3)
    again = browser.confirm("/topics/orders/delete", shown)
    assert again.status_code == 409
    assert "with its 3 partitions" in again.text
    assert topics_of(broker) == ["orders"]


@pytest.mark.slow
def test_a_user_who_may_not_delete_a_topic_is_told_so(secured: LocalBroker) -> None:
    with console_over(secured.address, client=WITHOUT_USER) as browser:
        assert sign_in(browser, "ana", USERS["ana"]) == 200
        answer = browser.change("/topics/orders/delete", {})
        assert answer.status_code == 403
        assert "TOPIC_AUTHORIZATION_FAILED" in answer.text
        answer = browser.change("/create-topic", {"name": "teas"})
        assert answer.status_code == 403
        assert [one["outcome"] for one in browser.json("/audit")["entries"]] == ["refused"]
        assert topics_of(secured) == ["orders", "secrets"]


# Copy


def test_a_topic_is_copied_in_the_background(broker: LocalBroker, browser: Browser) -> None:
    answer = browser.change("/topics/orders/copy", {"new": "again"})
    assert answer.url.path == "/jobs"
    wait_until(lambda: browser.json("/jobs")["runs"][0]["state"] == "done")
    (run,) = browser.json("/jobs")["runs"]
    assert run["said"].startswith("copied 6 records (")
    assert state_of(broker, "again")[1] == {("again", 0): (0, 3), ("again", 1): (0, 3)}
    (entry,) = browser.json("/audit")["entries"]
    assert (entry["outcome"], entry["said"]) == ("done", run["said"])
    assert browser.post("/topics/orders/copy", {"new": "again"}).status_code == 400
    assert browser.post("/topics/orders/copy", {"new": "<b>"}).status_code == 400


def test_a_run_ends_at_its_next_step_once_it_is_cancelled() -> None:
    runs, goes_on, ends = Runs(), threading.Event(), []

    def work(run: Run) -> str:
        for number in range(1000):
            goes_on.wait(10)
            run.step(number)
        return "all done"

    run = new_run(title="Copy", user="ana", path="/", begun_ms=0, total=1000, unit="steps")
    runs.begin(run, work, lambda state, said: ends.append((state, said)))
    assert (runs.of("ana"), runs.of("")) == ([run], [])
    run.cancelled.set()
    goes_on.set()
    runs.close()
    assert (run.state, ends) == (RunState.CANCELLED, [(RunState.CANCELLED, "cancelled")])
    with pytest.raises(CancelledError):
        run.step(1)


def test_a_run_is_cancelled_on_the_jobs_page(browser: Browser) -> None:
    state = browser.console.state
    goes_on = threading.Event()

    def work(run: Run) -> str:
        goes_on.wait(10)
        run.step(1)
        return "done"

    run = new_run(title="Copy <b>", user="", path="/topics/x", begun_ms=0, total=2, unit="offsets")
    state.runs.begin(run, work)
    assert "Copy &lt;b&gt;" in browser.text("/jobs")
    assert "cancelled: Copy" in browser.change("/jobs/cancel", {"run": run.id}).text
    goes_on.set()
    wait_until(lambda: run.state is RunState.CANCELLED)
    assert browser.change("/jobs/cancel", {"run": run.id}).status_code == 400
    assert browser.post("/jobs/cancel", {"run": "other"}).status_code == 404


# Directories


@pytest.mark.slow
def test_a_directory_without_a_broker_is_changed_the_same(at_rest: Browser, tmp_path: Path) -> None:
    assert "teas is created" in at_rest.change("/create-topic", {"name": "teas"}).text
    assert "grew from 1 to 2" in at_rest.change("/topics/teas/grow", {"count": "2"}).text
    assert "deleted" in at_rest.change("/topics/orders/empty", {"before": "2"}).text
    at_rest.change("/topics/orders/copy", {"new": "again"})
    wait_until(lambda: at_rest.json("/jobs")["runs"][0]["state"] == "done")
    assert "orders is deleted" in at_rest.change("/topics/orders/delete", {}).text
    with ottla.open(tmp_path / "data") as log:
        assert sorted(one for one in log.topics() if one[0] != "_") == ["again", "teas"]
        assert log.offsets("again") == {0: (0, 1), 1: (0, 1)}
    outcomes = [one["outcome"] for one in at_rest.json("/audit")["entries"]]
    assert outcomes == ["done"] * 5


# The commands shown


@pytest.mark.slow
def test_the_commands_shown_do_what_the_console_does(
    broker: LocalBroker, browser: Browser, tmp_path: Path
) -> None:
    name = "--yes"
    settings = {"retention.ms": "2d", "cleanup.policy": "compact,delete"}
    steps = [
        ("/create-topic", {"name": name, "partitions": "2", **settings}),
        (f"/topics/{name}/grow", {"count": "3"}),
        (f"/topics/{name}/settings", {"setting": "segment.bytes", "value": "1Mi"}),
        (f"/topics/{name}/settings", {"setting": "retention.ms", "unset": "1"}),
        (f"/topics/{name}/empty", {"before": "end"}),
    ]

    def states(do: Any) -> list[object]:
        found = []
        for path, fields in steps:
            do(path, fields)
            found.append(state_of(broker, name))
            if path.endswith("grow"):
                broker.produce(name, "tea", key="k", partition=2)
        do(f"/topics/{name}/delete", {})
        assert topics_of(broker) == ["orders"]
        return found

    by_console = states(browser.change)
    by_command = states(
        lambda path, fields: run_shown(preview(browser, path, **fields)["command"], tmp_path)
    )
    assert by_console == by_command


@pytest.mark.slow
def test_the_command_of_a_copy_copies_the_same(
    broker: LocalBroker, browser: Browser, tmp_path: Path
) -> None:
    run_shown(preview(browser, "/topics/orders/copy", new="--dry-run")["command"], tmp_path)
    assert state_of(broker, "--dry-run")[1] == {
        ("--dry-run", 0): (0, 3), ("--dry-run", 1): (0, 3)
    }  # fmt: skip


# Settings


def test_a_setting_is_shown_with_its_default_and_what_it_deletes(
    broker: LocalBroker, browser: Browser
) -> None:
    broker.create_topic("many", config={"segment.bytes": 2000})
    for _ in range(20):
        broker.produce("many", "x" * 400)
    path = "/topics/many/settings"
    shown = preview(browser, path, setting="retention.bytes", value="3000")
    assert shown["plan"]["rows"] == [["retention.bytes", "-1", "3000 (2.9 KiB)", "-1"]]
    (effect,) = shown["figures"]
    assert "retention then deletes " in effect
    assert effect.endswith("instead of nothing.")
    shown = preview(browser, path, setting="retention.ms", unset="1")
    assert "deletes the same as before: nothing" in shown["figures"][0]
    shown = preview(browser, path, setting="cleanup.policy", value="compact")
    assert "Of each key only the newest record stays" in shown["warnings"][0]
    for setting, value in (("retention.ms", "5days"), ("cleanup.policy", "keep"), ("tea", "1")):
        fields = {"setting": setting, "value": value}
        assert browser.post(path, fields).status_code in (400, 404), setting


def test_a_secret_of_a_broker_is_in_no_page_and_no_line(
    broker: LocalBroker, browser: Browser
) -> None:
    path, secret = "/settings", "the key's own word"
    fields = {"setting": "ssl.key.password", "value": "not taken"}
    shown = browser.post(path, fields)
    assert "${env:SECRET}" in shown.text
    assert "not taken" not in shown.text.partition('class="stack confirm"')[0]
    answer = browser.confirm(path, shown, secret=secret, again="another")
    assert "The two passwords are not the same" in answer.text
    answer = browser.confirm(path, shown, secret=secret, again=secret)
    (entry,) = browser.json("/audit")["entries"]
    assert secret not in answer.text
    assert secret not in str(entry)


# Several topics


def test_chosen_topics_are_changed_and_deleted_together(
    broker: LocalBroker, browser: Browser
) -> None:
    for name in ("a", "b", "c"):
        broker.create_topic(name)
    page = browser.text("/topics")
    assert 'name="topic.a" value="1" form="chosen" aria-label="Choose a"' in page
    chosen = {"topic.a": "1", "topic.b": "1"}
    fields = {**chosen, "setting": "retention.ms", "value": "2d"}
    shown = preview(browser, "/chosen-topics/settings", **fields)
    assert shown["plan"]["rows"][1] == ["b", "604800000 (7 d)", "172800000 (2 d)"]
    done = browser.change("/chosen-topics/settings", fields)
    assert "retention.ms of 2 topics changed" in done.text
    assert [state_of(broker, one)[0] for one in ("a", "b", "c")] == [
        {"retention.ms": "172800000"}, {"retention.ms": "172800000"}, {}
    ]  # fmt: skip
    shown = browser.post("/chosen-topics/delete", chosen)
    assert browser.confirm("/chosen-topics/delete", shown, typed="a").status_code == 400
    assert "2 topics deleted" in browser.confirm("/chosen-topics/delete", shown).text
    assert topics_of(broker) == ["c", "orders"]


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("delete", {}, "choose topics in the list"),
        ("delete", {"topic.order": "1"}, "did you mean orders?"),
        ("settings", {"topic.orders": "1", "setting": "retention"}, "there is no such setting"),
        (
            "settings",
            {"topic.orders": "1", "setting": "retention.ms", "value": "x"},
            "milliseconds",
        ),
    ],
)
def test_a_choice_that_is_wrong_changes_nothing(
    browser: Browser, path: str, fields: dict[str, str], words: str
) -> None:
    answer = browser.post(f"/chosen-topics/{path}", fields)
    assert answer.status_code in (400, 404)
    assert words in answer.text
