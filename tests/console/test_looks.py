"""Light, dark or the system's look, and times, as the console's pages have them without scripts."""

import re

import pytest

from ottla.console.rendering import Renderer
from tests.console.asking import HOST, Browser


def test_a_chosen_look_is_in_the_page_at_its_first_paint(browser: Browser) -> None:
    assert "data-look" not in browser.text("/topics")
    answer = browser.post("/look", {"look": "dark", "next": "/topics?q=a"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/topics?q=a")
    page = browser.text("/topics")
    assert '<html lang="en" data-look="dark">' in page
    assert '<meta name="color-scheme" content="dark">' in page
    assert re.search(r'value="dark" aria-pressed="true"', page)
    browser.post("/look", {"look": "", "next": "/topics"})
    assert "data-look" not in browser.text("/topics")


@pytest.mark.parametrize("look", ["blue", "Dark", "system"])
def test_no_other_look_can_be_chosen(browser: Browser, look: str) -> None:
    browser.client.cookies.set("ottla-look", look)
    page = browser.text("/topics")
    assert "data-look" not in page
    answer = browser.post("/look", {"look": look, "next": "/topics"}, follow_redirects=False)
    assert answer.headers["set-cookie"].startswith("ottla-look=; Max-Age=0;")


def test_a_look_is_chosen_by_the_consoles_own_form_and_leads_to_its_own_pages(
    browser: Browser,
) -> None:
    headers = {"origin": HOST}
    answer = browser.client.post("/look", data={"look": "dark"}, headers=headers)
    assert answer.status_code == 403
    fields = {"look": "dark", "next": "//evil.example/"}
    answer = browser.post("/look", fields, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_times_are_elements_that_read_as_utc(browser: Browser) -> None:
    page = browser.text("/topics/orders/messages")
    times = re.findall(r'<time datetime="([^"]+)">([^<]+)</time>', page)
    assert len(times) == 6
    for machine, text in times:
        assert machine == text.removesuffix(" UTC").replace(" ", "T") + "Z"


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, '<time datetime="1970-01-01T00:00:00.000Z">1970-01-01 00:00:00.000 UTC</time>'),
        (1 << 62, f"{1 << 62} ms"),
        (-(1 << 62), f"{-(1 << 62)} ms"),
        (None, "–"),
    ],
)
def test_a_time_that_no_calendar_has_stays_a_number(
    browser: Browser, timestamp_ms: int | None, text: str
) -> None:
    renderer = Renderer(browser.console.state)
    template = renderer._environment.from_string("{{ at|time }}")
    assert template.render(at=timestamp_ms) == text
