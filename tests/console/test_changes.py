"""Every write of the console: shown first, done once as it was shown, and in the audit log."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.console.audit import MOST_TEXT, AuditEntry, AuditLog, Outcome
from ottla.console.changes import Change, propose
from ottla.console.confirming import LIFETIME_S, Confirmations, Confirmed
from ottla.console.pages import Ask, Page, Redirect
from ottla.console.state_directory import StateDirectory
from ottla.testing import LocalBroker
from tests.console.asking import HOST, Browser, console_over, run_shown
from tests.console.test_signing_in import USERS, WITHOUT_USER, secured, sign_in

__all__ = ["secured"]
PRODUCE = "/topics/orders/produce"


def records_of(browser: Browser) -> int:
    return int(browser.json("/topics/orders")["records"])


def audited(browser: Browser) -> list[dict[str, str]]:
    return list(browser.json("/audit")["entries"])


# Previews and confirmations


def test_a_write_is_shown_with_its_command_before_it_is_done(browser: Browser) -> None:
    shown = browser.post(PRODUCE, {"value": "a 'tea'", "partition": "1"})
    assert shown.status_code == 200
    assert "The message goes to partition 1." in shown.text
    assert "ottla produce " in shown.text
    assert (records_of(browser), audited(browser)) == (6, [])
    done = browser.confirm(PRODUCE, shown)
    assert "sent to orders-1" in done.text
    assert records_of(browser) == 7
    (entry,) = audited(browser)
    assert (entry["outcome"], entry["title"]) == ("done", "Send one message to orders")
    assert entry["said"] == "sent to orders-1"
    assert "sent to orders-1" in browser.text("/audit")


def test_a_confirmation_is_good_for_once(browser: Browser) -> None:
    shown = browser.post(PRODUCE, {"value": "tea"})
    assert "sent to" in browser.confirm(PRODUCE, shown).text
    again = browser.confirm(PRODUCE, shown)
    assert again.status_code == 409
    assert "was confirmed before" in again.text
    assert records_of(browser) == 7
    assert "sent to" in browser.confirm(PRODUCE, again).text


@pytest.mark.parametrize("other", [{"value": "coffee"}, {"partition": "0"}, {"key": "k"}])
def test_what_was_not_shown_is_not_done(browser: Browser, other: dict[str, str]) -> None:
    shown = browser.post(PRODUCE, {"value": "tea", "partition": "1"})
    answer = browser.confirm(PRODUCE, shown, **other)
    assert answer.status_code == 409
    assert "Look at it again" in answer.text
    assert records_of(browser) == 6


def test_a_confirmation_of_another_page_or_of_another_visitor_is_none(
    broker: LocalBroker, browser: Browser
) -> None:
    broker.create_topic("bills")
    shown = browser.post("/topics/bills/produce", {"value": "tea"})
    assert browser.confirm(PRODUCE, shown).status_code == 409
    token = browser.form_token()
    browser.client.cookies.clear()
    shown = browser.post(PRODUCE, {"value": "tea"})
    browser.client.cookies.clear()
    answer = browser.confirm(PRODUCE, shown, form_token=browser.form_token())
    assert answer.status_code == 409
    assert browser.confirm(PRODUCE, shown, form_token=token).status_code == 403
    assert records_of(browser) == 6


def test_a_get_never_changes_anything(browser: Browser) -> None:
    shown = browser.json("/group/reset?name=billing&to=end")
    assert shown["confirm"]
    query = f"&confirm={shown['confirm']}&offsets=orders,0,3"
    browser.get(f"/group/reset?name=billing&to=end{query}")
    assert browser.json("/group?name=billing")["partitions"][0]["committed"] == 1
    assert audited(browser) == []


def test_what_is_done_is_what_was_shown_although_the_log_has_grown(
    broker: LocalBroker, browser: Browser
) -> None:
    shown = browser.post("/group/reset", {"name": "billing", "to": "end"})
    broker.produce("orders", "more", partition=0)
    assert "1 offset changed" in browser.confirm("/group/reset", shown).text
    assert browser.json("/group?name=billing")["partitions"][0]["committed"] == 3


def test_programs_get_the_preview_and_confirm_it(browser: Browser) -> None:
    headers = {"accept": "application/json", "origin": HOST}
    fields = {"form_token": browser.form_token(), "value": "tea", "partition": "0"}
    shown = browser.client.post(PRODUCE, data=fields, headers=headers).json()
    assert shown["fields"] == {"value": "tea", "partition": "0"}
    assert shown["lines"][0] == "The message goes to partition 0."
    confirmed = fields | shown["fields"] | {"confirm": shown["confirm"]}
    done = browser.client.post(PRODUCE, data=confirmed, headers=headers).json()
    assert done == {"done": "sent to orders-0", "page": "/topics/orders/messages/0/3"}


def test_confirmations_end_after_an_hour_and_forged_ones_are_none() -> None:
    now_s = [100.0]
    confirmations = Confirmations(lambda: now_s[0])
    given = confirmations.new("ana", b"shown")
    for forged in ("", "x", "..", given + "0", given.replace(".100.", ".4000."), "9" * 5000):
        assert confirmations.take("ana", b"shown", forged) is Confirmed.CHANGED
    assert confirmations.take("eva", b"shown", given) is Confirmed.CHANGED
    assert Confirmations().take("ana", b"shown", given) is Confirmed.CHANGED
    now_s[0] += LIFETIME_S + 1
    assert confirmations.take("ana", b"shown", given) is Confirmed.TOO_OLD
    now_s[0] -= 2
    assert confirmations.take("ana", b"shown", given) is Confirmed.YES
    assert confirmations.take("ana", b"shown", given) is Confirmed.USED


def test_the_command_of_a_message_sends_the_same_message(
    broker: LocalBroker, browser: Browser, tmp_path: Path
) -> None:
    fields = {
        "key": "-k <b>'1'</b>", "value": "$(id)\r\n\u202e\x1b[31m tea'", "partition": "0",
        "headers": "waiter=Eva's\r\nurgent",
    }  # fmt: skip
    shown = browser.client.post(
        PRODUCE, data={"form_token": browser.form_token(), **fields}, headers={"origin": HOST},
        params={"format": "json"},
    ).json()  # fmt: skip
    run_shown(shown["command"], tmp_path)
    browser.change(PRODUCE, fields)
    by_command, by_console = (
        browser.json(f"/topics/orders/messages/0/{offset}") for offset in (3, 4)
    )
    for name in ("key", "value", "headers"):
        assert by_command[name] == by_console[name]


# The audit log


@pytest.mark.slow
def test_what_the_broker_refuses_is_shown_and_audited_as_refused(secured: LocalBroker) -> None:
    with console_over(secured.address, client=WITHOUT_USER) as browser:
        assert sign_in(browser, "ana", USERS["ana"]) == 200
        answer = browser.change(PRODUCE, {"value": "tea", "partition": "0"})
        assert answer.status_code == 403
        (entry,) = audited(browser)
        assert (entry["outcome"], entry["user"]) == ("refused", "ana")
        assert "TOPIC_AUTHORIZATION_FAILED" in entry["said"]
        assert "-X sasl.username=ana -X 'sasl.password=${env:PASSWORD}'" in entry["command"]
        browser.post("/sign-out", {})
        assert sign_in(browser, "root", USERS["root"]) == 200
        assert audited(browser) == []  # Each user sees the user's own changes.


def test_what_cannot_be_audited_is_not_done(broker: LocalBroker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = StateDirectory(tmp_path / "file" / "state")
    with console_over(broker.address, directory=directory) as browser:
        answer = browser.change(PRODUCE, {"value": "tea"})
        assert answer.status_code == 400
        assert "--state DIR names another directory" in answer.text
        assert records_of(browser) == 6


def entry_of(number: int, outcome: Outcome = Outcome.DONE, **other: Any) -> AuditEntry:
    given = {
        "user": "", "visitor": "v", "address": "::1", "target": "data/",
        "title": f"Change {number}", "command": "ottla", **other,
    }  # fmt: skip
    return AuditEntry(id=f"{number}", at_ms=number, outcome=outcome, **given)


def test_the_last_line_of_a_change_is_its_outcome(tmp_path: Path) -> None:
    log = AuditLog(StateDirectory(tmp_path / "state"))
    assert list(log.latest()) == []
    log.add(entry_of(1, Outcome.BEGUN))
    log.add(entry_of(2, Outcome.BEGUN))
    log.add(entry_of(1, Outcome.FAILED, said="gone"))
    assert [(one["id"], one["outcome"]) for one in log.latest()] == [
        ("1", "failed"),
        ("2", "begun"),
    ]
    path = Path(log.path)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_line_that_a_crash_has_cut_harms_no_other(tmp_path: Path) -> None:
    log = AuditLog(StateDirectory(tmp_path))
    log.add(entry_of(1))
    with open(log.path, "ab") as file:
        file.write(b'{"id": "2", "at": "20')
    log.add(entry_of(3))
    assert [one["id"] for one in log.latest()] == ["3", "1"]
    with open(log.path, "ab") as file:
        file.write(b'[]\n{"id": 7}\n\xff\xfe\n' + b"[" * 100_000)
    assert [one["id"] for one in log.latest()] == ["3", "1"]


def test_a_long_command_is_cut_in_the_log(tmp_path: Path) -> None:
    log = AuditLog(StateDirectory(tmp_path))
    log.add(entry_of(1, command="tea " * 10_000))
    (found,) = log.latest()
    assert len(found["command"]) < MOST_TEXT + 50
    assert found["command"].endswith("(36,000 more characters)")


def test_a_full_file_is_put_aside_and_none_is_lost(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    for number in range(12):
        directory.append("audit.jsonl", b'{"id": "%d"}' % number, full_size=1)
    names = directory.appended("audit.jsonl")
    assert names == ["audit.jsonl", *(f"audit.{one}.jsonl" for one in range(11, 0, -1))]
    assert [one["id"] for one in AuditLog(directory).latest()] == [
        str(number) for number in range(11, -1, -1)
    ]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "state")
    assert (directory.read("lags.json"), directory.names()) == (b"", [])
    directory.replace("lags.json", b"long")
    directory.replace("lags.json", b"new")
    assert (directory.read("lags.json"), directory.names()) == (b"new", ["lags.json"])
    with pytest.raises(UserError, match="--state DIR"):
        StateDirectory(tmp_path / "state" / "lags.json").replace("x", b"")


def test_lines_are_objects_of_texts(browser: Browser) -> None:
    browser.change(PRODUCE, {"value": "tea"})
    path = Path(browser.json("/audit")["path"])
    begun, done = map(json.loads, path.read_text().splitlines())
    assert (begun["outcome"], done["outcome"]) == ("begun", "done")
    assert begun.keys() == done.keys()
    assert all(isinstance(one, str) for one in done.values())
    assert done["at"].endswith("Z")
    assert ottla.__version__ not in done.values()


@pytest.mark.parametrize("name", [" a  b\n", "\u202egnp", "<b>&amp;'\"", "tea é 茶"])
def test_a_name_is_typed_as_it_is_read(browser: Browser, name: str) -> None:
    place = browser.console.place
    asked = Ask(place=place, state=browser.console.state, now_ms=0, query={})
    change = Change(
        title="Lose it", deed=lambda: Redirect("/", "lost"), command=None, back="/", section="",
        typed=name,
    )  # fmt: skip
    shown = propose(asked, change)
    assert isinstance(shown, Page)
    assert "\n" not in shown.data["typed"]
    form = {"confirm": shown.data["confirm"], "typed": f" {shown.data['typed']}"}
    assert propose(replace(asked, form=form), change) == Redirect("/", "lost")
