"""Who may ask the console: hosts, origins, tokens and forms; what a browser may do with answers."""

import re
from urllib.parse import quote, urlencode

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.console.access import AccessPolicy, policy_for
from ottla.testing import LocalBroker
from tests.console.asking import HOST, PLACES, Browser, console_over

TOKEN = "a token of this test"
LOCAL = ("127.0.0.1", 8095)


def open_policy(token: str = "", *names: str) -> AccessPolicy:
    return AccessPolicy(token=token, names=names, secret=b"of this test")


# Hosts and origins


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8095", "127.0.0.1.evil.example", "localhost.evil", ""]
)
def test_a_name_that_was_made_to_lead_here_is_refused(browser: Browser, host: str) -> None:
    answer = browser.get("/", headers={"host": host})
    assert answer.status_code == 403
    assert "is not a name of this console" in answer.text


@pytest.mark.parametrize("host", ["localhost:8095", "127.0.0.1:1", "[::1]:8095", "192.0.2.7"])
def test_addresses_and_localhost_are_names_of_every_console(browser: Browser, host: str) -> None:
    assert browser.get("/topics", headers={"host": host}).status_code == 200


def test_other_names_are_those_that_the_command_was_given(broker: LocalBroker) -> None:
    with console_over(broker.address, policy=open_policy("", "Ottla.Example")) as browser:
        headers = {"host": "ottla.example:8095"}
        assert browser.get("/topics", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": "http://127.0.0.1:9999", "sec-fetch-site": "same-site"},
        {"origin": HOST, "sec-fetch-site": "cross-site"},
    ],
)
def test_a_form_of_another_site_changes_nothing(browser: Browser, headers: dict[str, str]) -> None:
    answer = browser.post("/topics/orders/produce", {"value": "forged"}, headers=headers)
    assert answer.status_code == 403
    assert browser.json("/topics/orders")["records"] == 6


def test_a_script_or_an_image_of_another_site_gets_nothing(browser: Browser) -> None:
    for mode in ("no-cors", "cors", "same-origin"):
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode}
        assert browser.get("/topics?format=json", headers=headers).status_code == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert browser.get("/topics", headers=link).status_code == 200


@pytest.mark.parametrize("token", ["", "0" * 64, "tea"])
def test_a_form_without_its_token_changes_nothing(browser: Browser, token: str) -> None:
    answer = browser.post("/topics/orders/produce", {"value": "forged", "form_token": token})
    assert answer.status_code == 403
    assert browser.json("/topics/orders")["records"] == 6


def test_the_form_token_of_one_visitor_is_nothing_to_another(broker: LocalBroker) -> None:
    with (
        console_over(broker.address) as one,
        console_over(broker.address) as other,
    ):
        answer = other.post("/topics/orders/produce", {"form_token": one.form_token()})
        assert answer.status_code == 403


def test_a_read_only_console_shows_no_form_and_takes_none(broker: LocalBroker) -> None:
    with console_over(broker.address) as writing:
        form_token = writing.form_token()
        cookies = dict(writing.client.cookies)
    with console_over(broker.address, is_read_only=True) as browser:
        assert "read-only" in browser.text("/topics/orders/produce")
        for place in PLACES:
            forms = re.findall(r'<form method="post" action="([^"]*)"', browser.text(place))
            assert forms == ["/look"], place
        browser.client.cookies.update(cookies)
        for path, fields in (
            ("/topics/orders/produce", {"value": "tea"}),
            ("/group/reset", {"name": "billing", "to": "latest"}),
            ("/topics/orders/settings", {"setting": "retention.ms", "value": "1"}),
            ("/settings", {"setting": "log.retention.ms", "value": "1"}),
            ("/transactions/abort", {"transactional_id": "payments-1"}),
        ):
            answer = browser.client.post(
                path, data={"form_token": form_token, **fields}, headers={"origin": HOST}
            )
            assert answer.status_code == 403, path
            assert "read-only" in answer.text
        assert browser.json("/topics/orders")["records"] == 6


# The token


@pytest.mark.slow
def test_without_the_token_no_page_is_shown(broker: LocalBroker) -> None:
    with console_over(broker.address, policy=open_policy(TOKEN)) as browser:
        for place in (*PLACES, "/topics/orders/tail-stream", "/sign-in"):
            answer = browser.get(place)
            assert answer.status_code == 401, place
            assert "orders" not in answer.text.replace("&amp;", "&").replace(place, "")
            assert "set-cookie" not in answer.headers
        assert browser.get("/?token=wrong").status_code == 403
        wrong = {"authorization": "Bearer wrong"}
        assert browser.get("/", headers=wrong).status_code == 401
        forged = {"cookie": "ottla-console=visitor.0000"}
        assert browser.get("/", headers=forged).status_code == 401
        assert browser.get("/static/console.css").status_code == 200


def test_a_link_with_the_token_opens_the_console_and_loses_the_token(broker: LocalBroker) -> None:
    with console_over(broker.address, policy=open_policy(TOKEN)) as browser:
        answer = browser.get(f"/topics?q=or&token={TOKEN}", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/topics?q=or")
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert "SameSite=Lax" in answer.headers["set-cookie"]
        assert TOKEN not in answer.headers["set-cookie"]
        assert browser.get("/topics").status_code == 200


def test_the_token_may_be_typed_or_sent_by_a_program(broker: LocalBroker) -> None:
    with console_over(broker.address, policy=open_policy(TOKEN)) as browser:
        bearer = {"authorization": f"Bearer {TOKEN}"}
        assert browser.get("/topics", headers=bearer).status_code == 200
        fields = {"value": "tea", "partition": "0"}
        sent = browser.client.post(
            "/topics/orders/produce?format=json", data=fields, headers=bearer
        )
        fields |= {"confirm": sent.json()["confirm"]}
        sent = browser.client.post(
            "/topics/orders/produce?format=json", data=fields, headers=bearer
        )
        assert sent.json()["done"] == "sent to orders-0"
        assert browser.get("/topics").status_code == 401
        typed = browser.client.post(
            "/token", data={"token": TOKEN, "next": "/topics"}, headers={"origin": HOST}
        )
        assert (typed.status_code, typed.url.path) == (200, "/topics")


def test_the_token_page_leads_to_no_other_site(broker: LocalBroker) -> None:
    with console_over(broker.address, policy=open_policy(TOKEN)) as browser:
        for there in (
            "https://evil.example/",
            "//evil.example",
            "/\\evil.example",
            "/\t/evil.example",
        ):
            answer = browser.client.post(
                "/token",
                data={"token": TOKEN, "next": there},
                headers={"origin": HOST},
                follow_redirects=False,
            )
            assert answer.headers["location"] in ("/", "/%5Cevil.example/")


def test_a_console_that_others_reach_has_a_token_of_its_own() -> None:
    for host in ("0.0.0.0", "192.0.2.7", "::", "broker.example"):
        policy = policy_for((host, 8095), token="", names=(), is_encrypted=False)
        assert len(policy.token) >= 32
    for host in ("127.0.0.1", "::1", "localhost"):
        assert not policy_for((host, 8095), token="", names=(), is_encrypted=False).token
    asked = policy_for(LOCAL, token=TOKEN, names=(), is_encrypted=True)
    assert (asked.token, asked.is_encrypted) == (TOKEN, True)
    with pytest.raises(UserError, match="at least 16"):
        policy_for(LOCAL, token="short", names=(), is_encrypted=False)


# Answers


@pytest.mark.slow
def test_no_answer_lets_a_browser_run_anything_but_the_consoles_files(browser: Browser) -> None:
    for place in (*PLACES, "/nowhere", "/static/console.js", "/topics?format=json"):
        headers = browser.get(place).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        html = browser.get(place).text
        if headers["content-type"].startswith("text/html"):
            assert "<script>" not in html
            assert " style=" not in html
            assert " onclick" not in html


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    "{{7*7}}${7*7}",
    "a\u202egnp.exe",
    "\x00\x1b[31m\u2028",
)


@pytest.mark.slow
def test_hostile_strings_are_only_text_on_every_page(broker: LocalBroker, browser: Browser) -> None:
    with ottla.Admin(broker.address) as admin:
        for name in HOSTILE[:4]:
            admin.alter_group_offsets(name, {ottla.TopicPartition("orders", 0): 0})
        for number, name in enumerate(HOSTILE[:4]):
            admin.fence(name, timeout_ms=60_000 + number)
    for text in HOSTILE:
        broker.produce(
            "orders", text, key=text, partition=0, headers=[(text, text.encode()), ("h", None)]
        )
    asked = [quote(one, safe="") for one in HOSTILE]
    pages = [
        "/topics/orders/messages?order=oldest",
        "/topics/orders/tail",
        "/groups",
        "/queues",
        "/transactions",
        *(f"/topics/orders/messages/0/{offset}" for offset in range(3, 9)),
        *(f"/group?name={one}" for one in asked[:4]),
        *(f"/group/reset?name={one}&to={one}&topics={one}" for one in asked),
        *(f"/topics?q={one}" for one in asked),
        *(f"/topics/{one}" for one in asked),
        *(f"/topics/{one}/messages" for one in asked),
        *(f"/topics/orders/log/{one}" for one in asked),
        *(f"/settings?q={one}&broker={one}" for one in asked),
        *(f"/topics?done={one}" for one in asked),
        *(f"/{one}" for one in asked),
        *(f"/transactions?topic={one}" for one in asked),
        *(
            "/topics/orders/messages?"
            + urlencode(dict.fromkeys(("text", "key", "header", "where", "from", "until"), one))
            for one in HOSTILE
        ),
    ]
    for page in pages:
        html = browser.get(page).text
        assert "<script>alert" not in html, page
        assert "<img" not in html, page
        if page in pages[:10]:
            assert "\u202e" not in html, page
    whole = browser.text("/topics/orders/messages/0/3")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in whole
    shown = browser.json("/topics/orders/messages/0/7")
    assert shown["key"]["text"] == "a\\u202egnp.exe"


# Links and numbers


@pytest.mark.parametrize("path", ["//evil.example/", "///evil.example", "/%5Cevil.example/"])
def test_no_path_of_a_request_leads_to_another_site(broker: LocalBroker, path: str) -> None:
    with console_over(broker.address, policy=open_policy(TOKEN)) as browser:
        answer = browser.client.get(
            f"{HOST}{path}?{urlencode({'token': TOKEN})}", follow_redirects=False
        )
    assert answer.status_code == 303
    assert answer.headers["location"] in ("/", "/%5Cevil.example/")


ENDLESS = "9" * 5000


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/topics?page={}&per={}", 200),
        ("/groups?page={}", 200),
        ("/jobs?first={}", 200),
        ("/topics/orders/messages?limit={}&after={}:{}", 200),
        ("/topics/orders/messages?partition={}", 400),
        ("/topics/orders/messages?from={}", 200),
        ("/topics/orders/messages?from=@{}", 200),
        ("/topics/orders/messages?until={}h", 200),
        ("/topics/orders/messages?where=.a[{}]+>+1", 200),
        ("/topics/orders/messages?where=.a+>+{}", 200),
        ("/topics/orders/messages/{}/0", 404),
        ("/topics/orders/messages/0/{}", 404),
        ("/topics/orders/log/{}", 404),
        ("/topics/orders/tail?partition={}", 400),
        ("/topics/orders/tail-stream?partition={}", 400),
        ("/group/reset?name=billing&to={}", 200),
        ("/group/reset?name=billing&to=-{}", 200),
        ("/group/reset?name=billing&to={}d", 200),
        ("/group/reset?name=billing&to=@{}", 200),
    ],
)
def test_a_number_without_end_is_no_fault(browser: Browser, path: str, status: int) -> None:
    answer = browser.get(path.replace("{}", ENDLESS))
    assert "this page failed" not in answer.text
    assert answer.status_code in (status, 400, 404)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/topics/orders/produce", {"value": "x", "partition": ENDLESS}),
        ("/group/reset", {"name": "billing", "to": "+" + ENDLESS}),
        ("/transactions/abort", {"topic": "orders", "partition": ENDLESS, "first_offset": "1"}),
        ("/transactions/abort", {"topic": "orders", "partition": "0", "first_offset": ENDLESS}),
    ],
)
def test_a_form_with_a_number_without_end_is_refused(
    browser: Browser, path: str, fields: dict[str, str]
) -> None:
    answer = browser.post(path, fields)
    assert answer.status_code in (400, 404)
    assert "this page failed" not in answer.text
