"""Names and contents that somebody else chose, on every page; and every page by keyboard alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import ottla
from ottla.console.views import VIEWS
from ottla.testing import LocalBroker
from tests.console.asking import AUTHORIZER, FEW_LOGS
from tests.console.chromium import absence, opened_chromium
from tests.console.demo import admin_of, console_of, demo_broker
from tests.console.test_browser import LOOKS, PAGES, PATIENCE_MS, Complaints

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(absence() is not None, reason=str(absence())),
]

MARKUP = "<img src=x onerror=alert(1)>\"'{{7*7}}${7*7}`&lt;"
HOSTILE = f"{MARKUP}</script><script>alert(2)</script>"
UNREADABLE = "\u202e\ufeff\x00\x1b[31m\n" + "W" * 2000
"""Turned around, invisible, with a line's end, and a word that is wider than any window."""


FIELDS = (
    "name", "topic", "q", "text", "where", "from", "to", "done", "partition",
    "user", "principal", "group", "host", "client_id", "token", "limit",
)  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with opened_chromium() as found:
        yield found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """One whose directory, topic, groups, clients and transactional ids have such names."""
    directory = tmp_path_factory.mktemp("hostile") / MARKUP
    with LocalBroker(directory, {**FEW_LOGS, **AUTHORIZER}) as found:
        found.create_topic("__proto__")
        found.create_topic("t" * 249)
        with admin_of(found) as admin:
            for name in (HOSTILE, UNREADABLE):
                admin.alter_group_offsets(name, {ottla.TopicPartition("__proto__", 0): 0})
                start = {ottla.TopicPartition("__proto__", 0): 0}
                admin.alter_share_group_offsets(f"{name}s", start)
                admin.fence(name, timeout_ms=60_000)
                admin.alter_quotas({"user": name, "client-id": name}, {"request_percentage": 5})
                password = {"mechanism": "SCRAM-SHA-256", "password": "x"}
                admin.alter_user_scram_credentials(
                    [ottla.UserScramCredentialUpsertion(user=name, **password)]
                )
                admin.create_acls(
                    ottla.AclBinding(
                        resource_type="GROUP",
                        name=name,
                        pattern_type=pattern,
                        principal=f"User:{name}",
                        host=name[:200].replace("/", "|"),  # with a slash it is a range
                        operation="READ",
                    )
                    for pattern in ("LITERAL", "PREFIXED")
                )
        for name in (HOSTILE, UNREADABLE):
            headers = [(name, name.encode())]
            found.produce("__proto__", name, key=name, headers=headers)
        yield found


def paths_of_every_view() -> Iterator[str]:
    for template in VIEWS:
        for topic in ("__proto__", "t" * 249, quote(HOSTILE, safe="")):
            yield template.format(topic=topic, partition=0, offset=0, table=0)
            if "{" not in template:
                break
        path = template.format(topic="__proto__", partition=0, offset=1, table=1)
        for name in (HOSTILE, UNREADABLE):
            text = quote(name, safe="")
            yield f"{path}?{'&'.join(f'{field}={text}' for field in FIELDS)}"
            yield f"{path}?name={text}"
            people = (
                f"principal=User:{text}&group={text}&user={text}&producer_byte_rate=1",
                f"principal=any&all=1&ip={text}&explain=1",
            )
            if template.startswith(("/users", "/acls", "/quotas")):
                yield from (f"{template}?{one}" for one in people)


def test_no_name_or_content_runs_a_script_or_is_wider_than_its_page(
    chromium: Any, broker: LocalBroker
) -> None:
    look = LOOKS["narrow"]
    complaints = Complaints()
    with console_of(broker, tables=(f"/{HOSTILE}", "/" + UNREADABLE.replace("\0", ""))) as console:
        context = chromium.new_context(base_url=console, **look)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        complaints.watch(page)
        wide = {}
        for path in paths_of_every_view():
            page.goto(path)
            page.wait_for_selector("h1, pre", state="attached")
            assert page.query_selector("main img, main script") is None, path
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > look["viewport"]["width"]:
                wide[path] = width
        context.close()
    assert wide == {}
    assert complaints == []


WATCH_FOCUS = """
const seen = document.body.seen = new Map();
const fields = "button, input:not([type=hidden]), select, textarea";
const kinds = `a[href], ${fields}, summary, [tabindex="0"]`;
const named = (one) => [one.tagName, one.getAttribute("href") ?? one.name ?? "",
  one.id, one.ariaLabel, one.textContent.trim().slice(0, 40)].join(" ");
document.addEventListener("focusin", ({ target }) => {
  const style = getComputedStyle(target.querySelector(".shape rect") ?? target);
  seen.set(named(target), style.outlineStyle !== "none" || style.stroke !== "none");
});
document.body.missed = () => [...document.querySelectorAll(kinds)]
  .filter((one) => !one.disabled && one.checkVisibility() && one.tabIndex >= 0)
  .map(named).filter((one) => !seen.get(one));
"""


def test_every_link_field_and_button_is_reached_by_tab_and_shows_that_it_is(
    chromium: Any, tmp_path: Path
) -> None:
    found = {}
    with demo_broker(tmp_path / "data") as broker, console_of(broker) as console:
        context = chromium.new_context(base_url=console, **LOOKS["light"])
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        for path in PAGES:
            page.goto(path)
            page.wait_for_selector("main h1")
            page.wait_for_selector("[aria-busy=true]", state="detached")
            if "stream=" in path:
                page.wait_for_selector("[data-words]:has-text('50 messages found')")
            page.evaluate(WATCH_FOCUS)
            for _ in range(page.evaluate("document.body.missed().length") + 5):
                page.keyboard.press("Tab")
            found[path] = page.evaluate("document.body.missed()")
        context.close()
    assert {path: missed for path, missed in found.items() if missed} == {}


def test_a_list_is_not_busy_for_ever_when_its_figures_do_not_come(
    chromium: Any, broker: LocalBroker
) -> None:
    with console_of(broker) as console:
        page = chromium.new_page(base_url=console)
        page.route("**/topics-figures*", lambda route: route.abort())
        with page.expect_event("requestfailed"):
            page.goto("/topics")
        page.wait_for_selector("table[aria-busy=false]", timeout=PATIENCE_MS)
        page.close()
