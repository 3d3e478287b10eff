"""A console over a broker with users: people sign in, and may do what the broker lets them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.cli.console.console_command import console_target
from ottla.cli.target import parse_target
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, HOST, PLACES, Browser, console_over, fill

USERS = {"root": "the root's word", "ana": "ana's word"}
SECURED = {
    **FEW_LOGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
OF_THE_CLUSTER = ("/group?", "/cluster", "/users", "/quotas")
"""Pages of which ana may see nothing."""
WITHOUT_USER = {"security.protocol": "SASL_PLAINTEXT"}


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[LocalBroker]:
    path = tmp_path / "data"
    with LocalBroker(path, SECURED, security="SASL_PLAINTEXT", users=USERS) as broker:
        fill(broker.log)
        with ottla.Admin(broker.log) as admin:
            admin.create_acls(
                ottla.AclBinding(name="orders", principal="User:ana", operation=operation)
                for operation in ("DESCRIBE", "READ")
            )
            broker.create_topic("secrets")
        broker.produce("secrets", "for root alone")
        yield broker


@pytest.fixture
def visitor(secured: LocalBroker) -> Iterator[Browser]:
    with console_over(secured.address, client=WITHOUT_USER) as found:
        yield found


def sign_in(browser: Browser, name: str, password: str) -> int:
    fields = {"username": name, "password": password}
    fields["form_token"] = browser.form_token("/sign-in")
    answer = browser.client.post("/sign-in", data=fields, headers={"origin": HOST})
    return int(answer.status_code)


@pytest.mark.slow
def test_nothing_is_shown_before_somebody_signs_in(visitor: Browser) -> None:
    for place in PLACES:
        answer = visitor.get(place, follow_redirects=False)
        assert answer.status_code == 303, place
        assert answer.headers["location"].startswith("/sign-in?next=%2F")
        assert visitor.get(place, headers={"accept": "application/json"}).status_code == 401
    assert visitor.get("/topics/orders/tail-stream").status_code == 401
    sent = visitor.client.post(
        "/topics/orders/produce", data={"value": "tea"}, headers={"origin": HOST}
    )
    assert sent.url.path == "/sign-in"


def test_a_wrong_password_is_refused_and_says_nothing_of_it(visitor: Browser) -> None:
    for name, password in (("ana", "wrong"), ("nobody", "ana's word"), ("", "")):
        assert sign_in(visitor, name, password) == 403
    assert visitor.get("/topics", follow_redirects=False).status_code == 303


@pytest.mark.slow
def test_a_user_sees_what_the_broker_lets_that_user_see(visitor: Browser) -> None:
    assert sign_in(visitor, "ana", USERS["ana"]) == 200
    assert [one["name"] for one in visitor.json("/topics")["topics"]] == ["orders"]
    assert visitor.json("/topics/orders/messages?limit=1")["messages"]
    for path in ("/topics/secrets", "/topics/secrets/messages", "/topics/secrets/log/0"):
        answer = visitor.get(path)
        assert answer.status_code in (400, 403, 404), path
        assert "for root alone" not in answer.text
    picture = visitor.json("/topics/orders/log/0")
    assert picture["is_from_afar"]  # The directory's files are not for who may not see sizes.
    for place in PLACES:
        answer = visitor.get(place)
        of_settings = any(one in place for one in ("settings", "/grow", "/copy"))
        is_denied = place.startswith(OF_THE_CLUSTER) or place == "/acls" or of_settings
        expected = (403, 404) if is_denied else (200,)
        assert answer.status_code in expected, (place, answer.text)
        assert "secrets" not in answer.text, place


@pytest.mark.slow
def test_a_user_does_what_the_broker_lets_that_user_do(visitor: Browser) -> None:
    assert sign_in(visitor, "ana", USERS["ana"]) == 200
    answer = visitor.change("/topics/orders/produce", {"value": "tea", "partition": "0"})
    assert answer.status_code == 403
    assert "TOPIC_AUTHORIZATION_FAILED" in answer.text
    assert visitor.post("/sign-out", {}).url.path == "/sign-in"
    assert visitor.get("/topics", follow_redirects=False).status_code == 303
    assert sign_in(visitor, "root", USERS["root"]) == 200
    answer = visitor.change("/topics/orders/produce", {"value": "tea", "partition": "0"})
    assert answer.status_code == 200
    names = [one["name"] for one in visitor.json("/topics")["topics"]]
    assert names == ["orders", "secrets"]
    assert not visitor.json("/topics/secrets/log/0")["is_from_afar"]


@pytest.mark.slow
def test_two_people_do_not_see_with_each_others_eyes(secured: LocalBroker) -> None:
    with console_over(secured.address, client=WITHOUT_USER) as ana:
        cookies = dict(ana.client.cookies)
        assert sign_in(ana, "ana", USERS["ana"]) == 200
        mine = dict(ana.client.cookies)
        assert mine != cookies
        ana.client.cookies.clear()
        assert ana.get("/topics", follow_redirects=False).status_code == 303
        assert sign_in(ana, "root", USERS["root"]) == 200
        assert len(ana.json("/topics")["topics"]) == 2
        ana.client.cookies.clear()
        ana.client.cookies.update(mine)
        assert len(ana.json("/topics")["topics"]) == 1


def test_the_user_of_the_settings_is_everybodys(secured: LocalBroker) -> None:
    with console_over(secured.address, client=secured.client_settings("ana")) as browser:
        assert [one["name"] for one in browser.json("/topics")["topics"]] == ["orders"]
        assert browser.get("/sign-in", follow_redirects=False).status_code == 303


def test_people_do_not_sign_in_over_a_directory(secured: LocalBroker) -> None:
    target = parse_target(str(secured.directory), WITHOUT_USER)
    with pytest.raises(UserError, match="signing in needs a broker"):
        console_target(target)
