"""Parameters of an address that a page does not take: it says which, and keeps what was written."""

import pytest

from tests.console.asking import Browser

WRONG = [
    ("/topics?page=abc", "page"),
    ("/topics?page=0", "page"),
    ("/topics?page=99", "page"),
    ("/topics?per=1001", "per"),
    ("/topics?per=-1", "per"),
    ("/topics?sort=sizes", "sort"),
    ("/topics?internal=yes", "internal"),
    ("/topics?figures=2", "figures"),
    ("/topics?format=xml", "format"),
    ("/groups?page=2", "page"),
    ("/jobs?first=a", "first"),
    ("/settings?all=true", "all"),
    ("/transactions?everywhere=x", "everywhere"),
    ("/topics/orders/settings?all=2", "all"),
    ("/topics/orders/tail?partition=a", "partition"),
    ("/topics/orders/tail?partition=7", "partition"),
    ("/topics/orders/messages/0/0?download=header", "download"),
    ("/topics/orders/messages?limit=abc", "limit"),
    ("/topics/orders/messages?limit=501", "limit"),
    ("/topics/orders/messages?limit=-1", "limit"),
    ("/topics/orders/messages?limit=\u0661", "limit"),
    ("/topics/orders/messages?order=upwards", "order"),
    ("/topics/orders/messages?isolation=none", "isolation"),
    ("/topics/orders/messages?stream=yes", "stream"),
    ("/topics/orders/messages?partition=0,-1", "partition"),
    ("/topics/orders/messages?partition=2", "partition"),
    ("/topics/orders/messages?from=soon", "from"),
    ("/topics/orders/messages?from=stored", "from"),
    ("/topics/orders/messages?until=@soon", "until"),
    ("/topics/orders/messages?after=0", "after"),
    ("/topics/orders/messages?after=0:-1", "after"),
    ("/topics/orders/messages?where=.tea+%3D%3D%3D+1", "where"),
]


def test_a_wrong_parameter_is_named_with_what_is_allowed_and_status_400(browser: Browser) -> None:
    for path, name in WRONG:
        found = browser.get(path, headers={"accept": "application/json"})
        assert found.status_code == 400, (path, found.text)
        if "format=" not in path:
            assert found.json()["parameter"] == name, path
        page = browser.get(path)
        assert page.status_code == 400, path
        assert page.headers["content-type"].startswith("text/html"), path


def test_a_stream_says_what_is_wrong_with_its_parameters(browser: Browser) -> None:
    for path in ("messages-stream?limit=abc", "tail-stream?partition=9"):
        name = path.partition("?")[2].partition("=")[0]
        found = browser.get(f"/topics/orders/{path}", headers={"accept": "text/event-stream"})
        assert found.text.startswith("event: failed"), path
        assert f"{name} is " in found.text, path


def test_the_form_keeps_what_was_written(browser: Browser) -> None:
    found = browser.get("/topics?q=%3Cb%3Eord&per=many&sort=size").text
    assert "per=many: per is a whole number from 1 to 1,000" in found
    for field in ('name="q" value="&lt;b&gt;ord"', 'name="sort" value="size"'):
        assert field in found
    assert 'name="per" value="many" spellcheck="false" aria-invalid="true"' in found
    search = browser.get("/topics/orders/messages?text=tea&limit=abc&from=2").text
    for field in (
        'name="text" type="search" value="tea"',
        'name="limit" aria-invalid="true" aria-describedby="problem" value="abc"',
    ):
        assert field in search
    assert "limit=abc: limit is a whole number from 1 to 500" in search


@pytest.mark.parametrize("path", ["/topics?page=&per=", "/topics/orders/messages?limit=&order="])
def test_an_empty_field_is_none(browser: Browser, path: str) -> None:
    assert browser.get(path).status_code == 200
