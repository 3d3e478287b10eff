"""Writes of the console that brokers do not answer, or cannot carry out at present."""

from html import unescape
from typing import Any

import pytest

import ottla
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UnreachableError
from ottla.client.administration.admin import Admin
from ottla.client.connecting.socket_connection import SocketConnection
from ottla.client.refusals import RefusedError
from ottla.protocol.messages.produce import ProduceRequest
from ottla.testing import LocalBroker
from tests.console.asking import Browser

PRODUCE = "/topics/orders/produce"
UNKNOWN = "It is not known whether this was done: look before you do it again"


def lose_answer(monkeypatch: pytest.MonkeyPatch, kind: type) -> list[Any]:
    """The broker does what the first request of a kind says, but its answer is lost."""
    ask, lost = SocketConnection.ask, []

    def ask_in_vain(self: SocketConnection, request: Any, **more: Any) -> Any:
        answer = ask(self, request, **more)
        if isinstance(request, kind) and not lost:
            lost.append(answer)
            raise UnreachableError("broker 0: no response within 10 s")
        return answer

    monkeypatch.setattr(SocketConnection, "ask", ask_in_vain)
    return lost


def records_of(browser: Browser) -> int:
    return int(browser.json("/topics/orders")["records"])


def test_a_message_whose_answer_is_lost_is_sent_again_and_is_there_once(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = lose_answer(monkeypatch, ProduceRequest)
    done = browser.change(PRODUCE, {"value": "tea", "partition": "0"})
    assert (len(lost), done.status_code) == (1, 200)
    assert "sent to orders-0" in done.text
    assert records_of(browser) == 7


def test_a_delete_without_an_answer_says_that_it_may_be_done_and_is_not_repeated_by_the_button(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = browser.post("/topics/orders/delete", {})
    delete = Admin.delete_topics

    def delete_in_vain(self: Admin, *given: Any, **more: Any) -> None:
        delete(self, *given, **more)
        raise UnreachableError("broker 0: no response within 10 s")

    monkeypatch.setattr(Admin, "delete_topics", delete_in_vain)
    answer = browser.confirm("/topics/orders/delete", shown)
    assert answer.status_code == 502
    assert f"Delete topic orders: broker 0: no response within 10 s. {UNKNOWN}" in answer.text
    assert browser.confirm("/topics/orders/delete", shown).status_code == 404


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RefusedError("orders", ApiError(ErrorCode.NOT_CONTROLLER)), 503),
        (RefusedError("orders", ApiError(ErrorCode.INVALID_CONFIG)), 400),
        (UnreachableError("broker 0: no response within 10 s"), 502),
    ],
    ids=["no controller", "wrong", "unreachable"],
)
def test_the_preview_of_a_form_blames_the_fields_only_where_they_are_wrong(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*given: Any, **more: Any) -> None:
        raise error

    monkeypatch.setattr(Admin, "create_topic", fail)
    answer = browser.post("/create-topic", {"name": "neu", "partitions": "1"})
    assert (answer.status_code, str(error) in unescape(answer.text)) == (status, True)


def test_a_refused_rule_is_named(broker: LocalBroker) -> None:
    rule = ottla.AclBinding(
        name="logs-", pattern_type="PREFIXED", principal="User:ana", operation="WRITE"
    )
    with ottla.Admin(broker.log) as admin, pytest.raises(RefusedError) as caught:
        admin.create_acls([rule])
    wanted = "ACL User:ana write on topic logs- (prefixed): SECURITY_DISABLED"
    assert wanted in str(caught.value)
