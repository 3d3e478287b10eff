"""Every page and every write, old and new, asked as an attacker would ask it."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ottla.console.views import VIEWS
from ottla.console.views.streams import STREAMS
from ottla.testing import LocalBroker
from tests.console.asking import HOST, Browser
from tests.console.test_clusters import clusters_over

WRITES = sorted(path for path, view in VIEWS.items() if view.takes_forms)
FIELDS = {
    "topics": "orders", "topic": "orders", "name": "billing", "to": "beginning", "user": "ana",
    "partition": "0", "value": "x", "setting": "retention.ms", "subject": "s", "broker": "1",
    "principal": "any", "all": "1", "operation": "write", "resource": "topic", "rate": "5",
    "password": "a password of ana", "confirm": "x.1.y", "typed": "billing", "stream": "1",
}  # fmt: skip
"""Something for every field of every form."""
FOREIGN: tuple[dict[str, str], ...] = (
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:9999"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
)
ELSEWHERE = (
    "//evil.example",
    "/\\evil.example",
    "https://evil.example",
    "/\t/evil.example",
    "\\\\evil.example",
    "/ /evil.example\r\nx: y",
    "javascript:alert(1)",
    "///evil.example",
    "/%0d%0aset-cookie:a=b",
)


def filled(path: str) -> str:
    return path.format(topic="orders", partition=0, offset=0, table=0)


def audited(browser: Browser) -> list[Any]:
    found: list[Any] = browser.json("/audit")["entries"]
    return found


def test_no_write_can_be_sent_from_another_site(browser: Browser) -> None:
    token = browser.form_token()
    for headers in FOREIGN:
        for path in (*map(filled, WRITES), "/look", "/sign-in", "/sign-out"):
            fields = {"form_token": token, **FIELDS}
            answer = browser.client.post(path, data=fields, headers={"origin": HOST, **headers})
            assert answer.status_code == 403, (path, headers)
    assert audited(browser) == []


def test_no_write_is_taken_without_the_token_of_its_page(browser: Browser) -> None:
    for path in (*map(filled, WRITES), "/look", "/sign-out"):
        for token in ({}, {"form_token": ""}, {"form_token": "0" * 64}):
            answer = browser.client.post(path, data={**token, **FIELDS}, headers={"origin": HOST})
            assert answer.status_code == 403, path
    assert audited(browser) == []


def test_no_link_changes_anything_whatever_it_has(browser: Browser) -> None:
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in FIELDS.items())
    token = browser.form_token()
    for path in map(filled, VIEWS):
        answer = browser.get(f"{path}?{query}&form_token={token}", follow_redirects=False)
        assert answer.status_code in (200, 400, 404, 409, 501, 502), (path, answer.status_code)
    assert audited(browser) == []


def test_every_path_refuses_a_host_that_was_made_to_lead_here(browser: Browser) -> None:
    paths = [
        filled(path) for path in (*VIEWS, *STREAMS, "/look", "/sign-in", "/static/console.css")
    ]
    for path in paths:
        for method in ("GET", "POST"):
            answer = browser.client.request(method, path, headers={"host": "evil.example"})
            assert answer.status_code == 403, (method, path)
            assert "billing" not in answer.text


def confirmable(browser: Browser) -> Iterator[tuple[str, Any]]:
    """The changes of this broker that a preview can confirm, one path each."""
    for path in map(filled, WRITES):
        shown = browser.post(path, {name: FIELDS[name] for name in FIELDS if name != "confirm"})
        if 'name="confirm"' in shown.text:
            yield path, shown


def form_of(shown: Any) -> dict[str, str]:
    form = shown.text.partition('class="stack confirm">')[2].partition("</form>")[0]
    hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form)
    typed = re.search(r'<label for="typed">Type <code>(.*?)</code>', form, re.DOTALL)
    fields = {name: unescape(value) for name, value in hidden}
    return fields | ({"typed": unescape(typed[1])} if typed else {})


def test_a_confirmation_is_for_its_own_page_and_its_own_fields(browser: Browser) -> None:
    shown = dict(confirmable(browser))
    assert len(shown) >= 4
    for path, page in shown.items():
        for other in map(filled, WRITES):
            if other != path:
                browser.client.post(other, data=form_of(page), headers={"origin": HOST})
        for name in set(form_of(page)) - {"form_token", "confirm", "typed"}:
            fields = form_of(page) | {name: "another"}
            browser.client.post(path, data=fields, headers={"origin": HOST})
    assert audited(browser) == []


def test_a_confirmation_of_one_cluster_is_none_of_another(
    broker: LocalBroker, tmp_path: Path
) -> None:
    with clusters_over({"a": broker.address, "b": broker.address}) as client:
        page = "topics/orders/settings"
        token = re.search(
            r'name="form_token" value="([0-9a-f]+)"', client.get(f"/clusters/a/{page}").text
        )
        assert token is not None
        fields = {"form_token": token[1], "setting": "retention.ms", "value": "77777777"}
        shown = client.post(f"/clusters/a/{page}", data=fields, headers={"origin": HOST})
        form = form_of(shown)
        refused = client.post(f"/clusters/b/{page}", data=form, headers={"origin": HOST})
        assert refused.status_code == 409
        assert broker.log.topic_settings("orders")["retention.ms"] != "77777777"
        done = client.post(
            f"/clusters/a/{page}", data=form, headers={"origin": HOST}, follow_redirects=False
        )
        assert done.status_code == 303
        assert done.headers["location"].startswith("/clusters/a/")


def test_no_field_leads_a_browser_to_another_site(browser: Browser) -> None:
    token = browser.form_token()
    for target in ELSEWHERE:
        fields = {"form_token": token, "look": "dark", "next": target}
        answer = browser.client.post(
            "/look", data=fields, headers={"origin": HOST}, follow_redirects=False
        )
        assert is_own(answer.headers["location"]), target
        assert "a=b" not in answer.headers.get("set-cookie", "")
        for path in (f"/sign-in?next={quote(target, safe='')}", f"/topics?done={quote(target)}"):
            shown = browser.get(path, follow_redirects=False)
            assert is_own(shown.headers.get("location", "/")), path


def is_own(location: str) -> bool:
    return re.fullmatch(r"/([^/\\].*)?", location) is not None


def test_a_slash_at_the_end_leads_to_no_other_site(broker: LocalBroker) -> None:
    with clusters_over({"a": broker.address, "b": broker.address}) as client:
        for path in ("/clusters/a", "//evil.example/clusters/a", "/clusters/a//evil.example/"):
            answer = client.get(path, follow_redirects=False)
            location = answer.headers.get("location", "")
            assert location in ("", f"{HOST}/clusters/a/"), (path, location)
