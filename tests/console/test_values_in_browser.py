"""Decoded values, the reader's own time and look, and the registry's pages, in a browser."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("avro")
pytest.importorskip("fastavro")

from ottla.console.decoding import Decodings
from ottla.schema_registry.administration import NewSchema, open_admin
from ottla.schema_registry.http import HttpRegistry
from ottla.schema_registry.served.api import Api
from ottla.schema_registry.served.http import RegistryServer
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS
from tests.console.chromium import absence, axe_absence, faults_of, opened_chromium
from tests.console.demo import console_of
from tests.console.test_browser import LOOKS, PATIENCE_MS, Complaints, until
from tests.console.test_decoding import ORDER, order
from tests.unit.schema_registry.test_served_api import ListedLog

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(absence() is not None, reason=str(absence())),
]

INDIA = timedelta(hours=5, minutes=30)
HOSTILE = "<img src=x onerror=alert(1)></td><script>alert(2)</script>\u202e"
PAGES = (
    "/topics/orders/messages",
    "/topics/orders/messages?limit=abc&where=.tea",
    "/topics/orders/messages/0/0",
    "/topics/orders/messages/0/1",
    "/topics/orders/messages/0/2",
    "/topics/orders/messages/0/3?value_as=base64",
    "/topics/orders/produce",
    "/topics?page=abc&q=a",
    "/schemas",
    "/schema?subject=orders-value",
    "/schema/compare?subject=orders-value",
    "/schema/register?subject=orders-value",
    "/schema/level?subject=orders-value&level=NONE",
    "/schema/delete?subject=orders-value",
)


@pytest.fixture(scope="module")
def registry() -> Iterator[HttpRegistry]:
    server = RegistryServer(("127.0.0.1", 0), Api(ListedLog()), [])
    server.start()
    found = HttpRegistry(f"http://127.0.0.1:{server.port}")
    admin = open_admin(found)
    added = {
        **ORDER,
        "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}],
    }  # type: ignore[misc]
    for schema in (ORDER, added):
        admin.register("orders-value", NewSchema(text=json.dumps(schema)))
    admin.register(HOSTILE, NewSchema(text=json.dumps({**ORDER, "doc": HOSTILE})))
    yield found
    server.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path_factory.mktemp("values") / "data", FEW_LOGS) as found:
        found.create_topic("orders")
        found.produce("orders", order("Assam", 3, 1), key="k")
        found.produce("orders", order(HOSTILE, 3, 1)[:-1], key=HOSTILE)
        found.produce("orders", order(HOSTILE * 40, 3, 1), key=HOSTILE)
        found.produce("orders", b"[" * 100_000, key=b"\xff\xfe")
        yield found


@pytest.fixture(scope="module")
def console(broker: LocalBroker, registry: HttpRegistry) -> Iterator[str]:
    with console_of(broker, decodings=Decodings(registry)) as found:
        yield found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with opened_chromium() as found:
        yield found


@contextmanager
def opened(chromium: Any, console: str, **more: Any) -> Iterator[Any]:
    """A page; what it complains of fails the test."""
    complaints = Complaints()
    context = chromium.new_context(base_url=console, **{**LOOKS["light"], **more})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints.watch(page)
    yield page
    context.close()
    assert complaints == []


BACK = "document.body && getComputedStyle(document.body).backgroundColor"
DARK, LIGHT = "rgb(17, 22, 29)", "rgb(246, 247, 249)"


def choose_look(page: Any, name: str, sign: str) -> None:
    """The choice loads the page again: between two documents the browser has no body to ask."""
    page.click(f".looks >> text={name}")
    page.wait_for_selector(sign)


def test_light_and_dark_are_chosen_by_hand_also_without_scripts(
    chromium: Any, console: str
) -> None:
    with opened(chromium, console, java_script_enabled=False) as page:
        page.goto("/topics?q=ord")
        page.click("text=Dark")
        page.wait_for_selector("html[data-look=dark]")
        assert page.url.endswith("/topics?q=ord")
    with opened(chromium, console) as page:
        page.goto("/schemas")
        assert page.evaluate(BACK) == LIGHT
        choose_look(page, "Dark", "html[data-look=dark] main h1")
        until(page, lambda: page.evaluate(BACK) == DARK)
        page.goto("/topics/orders/messages")
        assert page.evaluate(BACK) == DARK
        choose_look(page, "Light", "html[data-look=light] main h1")
        page.emulate_media(color_scheme="dark")
        until(page, lambda: page.evaluate(BACK) == LIGHT)
        choose_look(page, "System", "html:not([data-look]) main h1")
        until(page, lambda: page.evaluate(BACK) == DARK)


def test_times_are_the_readers_with_utc_beside_them_also_in_the_tail(
    chromium: Any, console: str, broker: LocalBroker
) -> None:
    with opened(chromium, console, timezone_id="Asia/Kolkata") as page:
        page.goto("/topics/orders/tail")
        page.wait_for_selector("[data-words]:has-text('a second')")
        count = page.locator("[data-messages] tr").count()
        broker.produce("orders", order("Kolkata", 1, 1), key="k")
        until(page, lambda: page.locator("[data-messages] tr").count() > count)
        for one in page.query_selector_all("[data-messages] time"):
            at = datetime.fromisoformat(one.get_attribute("datetime"))
            shown = one.inner_text()
            here = (at + INDIA).replace(tzinfo=None).isoformat(" ", "milliseconds")
            assert shown.startswith(here), shown
            clock = at.astimezone(UTC).strftime("%H:%M:%S")
            assert re.search(rf"{clock}\.\d{{3}} UTC$", shown), shown
        page.hover("[data-messages] time")
        title = page.get_attribute("[data-messages] time", "title")
        assert re.search(r"UTC, (\d+ (second|minute)s? ago|now)$", title), title


def test_the_tail_decodes_and_a_long_value_is_shown_whole_where_it_is(
    chromium: Any, console: str, broker: LocalBroker
) -> None:
    with opened(chromium, console) as page:
        page.goto("/topics/orders/tail")
        page.wait_for_selector("[data-words]:has-text('a second')")
        broker.produce("orders", order("Darjeeling", 2, 1), key="k")
        page.wait_for_selector('[data-messages] tr.new:has-text(\'"tea":"Darjeeling"\')')
        broker.produce("orders", order("long " * 500, 2, 1), key="k")
        more = page.wait_for_selector("[data-messages] tr.new a.more")
        more.click()
        page.wait_for_selector("[data-messages] tr.new a.more", state="detached")
        shown = page.locator("[data-messages] tr").first.inner_text()
        assert shown.count("long") == 500


def test_no_value_runs_a_script_or_is_wider_than_its_page(chromium: Any, console: str) -> None:
    began = time.monotonic()
    for look in ("light", "narrow"):
        with opened(chromium, console, **LOOKS[look]) as page:
            for path in PAGES:
                page.goto(path)
                page.wait_for_selector("main h1")
                assert page.query_selector("main img, main script") is None, path
                width = page.evaluate("document.documentElement.scrollWidth")
                assert width <= LOOKS[look]["viewport"]["width"], (path, look)
    assert time.monotonic() - began < 120


@pytest.mark.skipif(axe_absence() is not None, reason=str(axe_absence()))
def test_axe_finds_nothing(chromium: Any, console: str) -> None:
    found = {}
    with opened(chromium, console, timezone_id="Asia/Kolkata") as page:
        for path in PAGES:
            page.goto(path)
            page.wait_for_selector("main h1")
            found[path] = faults_of(page)
            page.emulate_media(color_scheme="dark")
            found[f"{path} dark"] = faults_of(page, only="color-contrast")
            page.emulate_media(color_scheme="light")
    assert {path: faults for path, faults in found.items() if faults} == {}


GAPS = """() => {
  const gaps = document.body.gaps = [];
  let before = performance.now();
  const look = now => {
    if (document.body.gaps !== gaps) return;
    gaps.push(now - before);
    before = now;
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""


def gaps_of(page: Any) -> list[float]:
    """The times between frames of some seconds, in milliseconds, from short to long."""
    page.evaluate(GAPS)
    page.wait_for_timeout(3000)
    return sorted(page.evaluate("document.body.gaps"))


def test_a_tail_of_many_decoded_messages_lets_the_browser_draw(
    chromium: Any, console: str, broker: LocalBroker
) -> None:
    """1,000 messages a second; measured beside the same page, paused, while as many come."""
    stopped = threading.Event()

    def load() -> None:
        data = [order("Sencha", number, 1) for number in range(100)]
        while not stopped.wait(0.1):
            broker.log.append_many("orders", data)

    with opened(chromium, console) as page:
        page.goto("/topics/orders/tail")
        page.wait_for_selector("[data-words]:has-text('a second')")
        thread = threading.Thread(target=load)
        thread.start()
        try:
            page.wait_for_selector("[data-words]:has-text('this is a sample')")
            live = gaps_of(page)
            page.keyboard.press(".")
            page.wait_for_selector("[data-words]:has-text('Paused.')")
            paused = gaps_of(page)
        finally:
            stopped.set()
            thread.join()
        assert "Sencha" in page.locator("[data-messages] tr").first.inner_text()
    for name, gaps in (("live", live), ("paused", paused)):
        half, most = gaps[len(gaps) // 2], gaps[-1]
        print(f"{name}: {len(gaps)} frames, half within {half:.1f} ms, all within {most:.1f} ms")
    assert live[len(live) // 2] < 4 * paused[len(paused) // 2]
