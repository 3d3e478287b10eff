"""The console in a browser: each page by mouse and keyboard, in light, dark and narrow."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import ottla
from ottla.testing import LocalBroker
from tests.console.asking import AUTHORIZER, FEW_LOGS
from tests.console.chromium import absence, axe_absence, faults_of, opened_chromium
from tests.console.demo import admin_of, console_of, demo_broker
from tests.console.test_signing_in import USERS, WITHOUT_USER
from tests.support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(absence() is not None, reason=str(absence())),
]

PATIENCE_MS = PATIENCE_S * 1000
PAGES = (
    "/",
    "/cluster",
    "/topics",
    "/topics/orders",
    "/topics/orders/log/0",
    "/topics/customers/log/0",
    "/topics/orders/messages",
    "/topics/orders/messages?text=Assam&stream=1",
    "/topics/orders/messages/0/599",
    "/topics/orders/tail",
    "/topics/orders/produce",
    "/topics/orders/settings?all=1",
    "/topics/orders/grow?count=5",
    "/topics/orders/delete",
    "/create-topic?name=teas",
    "/groups",
    "/group?name=billing",
    "/group/reset?name=billing&to=beginning",
    "/queues",
    "/queue?name=jobs",
    "/transactions",
    "/users",
    "/users/set?user=ana",
    "/acls",
    "/acls/add",
    "/acls/remove?principal=any&all=1",
    "/acls/may?principal=ana&operation=write&resource=topic&name=orders",
    "/quotas?explain=1&user=ana&client_id=loader",
    "/settings",
    "/jobs",
    "/tables",
    "/tiers",
    "/audit",
    "/nowhere",
)
LOOKS: dict[str, Any] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 860}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 860}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 780}},
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with demo_broker(tmp_path_factory.mktemp("browser") / "data") as found:
        yield found


@pytest.fixture(scope="module")
def console(broker: LocalBroker) -> Iterator[str]:
    with console_of(broker) as found:
        yield found


@pytest.fixture(scope="module")
def gates(broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The pages that stand before all others: where people sign in, and where a token is asked."""
    secured_path = tmp_path_factory.mktemp("secured") / "data"
    with (
        LocalBroker(secured_path, FEW_LOGS, security="SASL_PLAINTEXT", users=USERS) as secured,
        console_of(secured, **WITHOUT_USER) as signing_in,
        console_of(broker, token="a token of this test") as behind_a_token,
    ):
        yield [f"{signing_in}/sign-in?next=%2Ftopics", f"{behind_a_token}/topics"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with opened_chromium() as found:
        yield found


def until(page: Any, holds: Callable[[], object]) -> None:
    """Waits for what must come. The page's policy forbids the browser to wait for a script."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        page.wait_for_timeout(20)


def rows(page: Any) -> Any:
    return page.locator("[data-messages] tr")


class Complaints(list[str]):
    """What the browser's own console says of a page: errors, and what its policy stopped."""

    def watch(self, page: Any) -> None:
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("console", self._take)
        page.on("dialog", lambda dialog: self.append(f"dialog {dialog.message}"))

    def _take(self, message: Any) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.append(message.text)


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def page(chromium: Any, console: str, complaints: Complaints) -> Iterator[Any]:
    """A page; what it complains of fails the test."""
    context = chromium.new_context(base_url=console, **LOOKS["light"])
    context.set_default_timeout(PATIENCE_MS)
    found = context.new_page()
    complaints.watch(found)
    yield found
    context.close()
    assert complaints == []


@pytest.fixture
def pages(chromium: Any, console: str, gates: list[str], complaints: Complaints) -> Iterator[Any]:
    """Opens each page once, gives it in each look, and closes the browser's page at the end.

    Yields `(path, look, page)`. What a page complains of fails the test.
    """
    context = chromium.new_context(base_url=console)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints.watch(page)
    yield ((path, look, page) for path in (*PAGES, *gates) for look in in_each_look(page, path))
    context.close()
    assert complaints == []


def in_each_look(page: Any, path: str) -> Iterator[str]:
    page.goto(path)
    page.wait_for_selector("main h1")
    for look, means in LOOKS.items():
        page.emulate_media(color_scheme=means["color_scheme"])
        page.set_viewport_size(means["viewport"])
        yield look


CUT_OFF = """() => [...document.querySelectorAll("main table")].flatMap(table => {
  const box = table.closest(".scroll") ?? table;
  const cells = [...table.querySelectorAll("th, td")];
  const isInside = cell => {
    const [inner, outer] = [cell.getBoundingClientRect(), box.getBoundingClientRect()];
    return inner.left >= outer.left - 1 && inner.right <= outer.right + 1;
  };
  box.scrollLeft = 0;
  const first = cells.filter(cell => cell.matches(":first-child") && !isInside(cell));
  box.scrollLeft = table.scrollWidth;
  const last = cells.filter(cell => cell.matches(":last-child") && !isInside(cell));
  box.scrollLeft = 0;
  const outer = box.getBoundingClientRect();
  const scrolls = getComputedStyle(box).overflowX === "auto" && box.tabIndex === 0;
  const isOut = outer.left < 0 || outer.right > innerWidth || !scrolls;
  return [...first, ...last, ...(isOut ? [box] : [])].map(cell => cell.textContent.slice(0, 60));
})"""
"""The cells that nobody reaches by scrolling their table sideways, in its box in the window."""


FADES = """() => [...document.querySelectorAll("main .scroll")].every(
  box => (box.scrollWidth > box.clientWidth) === (getComputedStyle(box).maskImage !== "none")
)"""
"""Whether exactly the tables that go on beyond their boxes fade out there."""


def until_fades_are_right(page: Any) -> None:
    """The browser computes them with the next frame."""
    until(page, lambda: page.evaluate(FADES))


def test_each_page_fits_its_window_and_nothing_on_it_is_refused(pages: Any, tmp_path: Path) -> None:
    for path, look, page in pages:
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= LOOKS[look]["viewport"]["width"], (path, look)
        assert page.evaluate(CUT_OFF) == [], (path, look)
        picture = page.screenshot(path=tmp_path / "page.png")
        assert len(picture) > 5000, (path, look)
        until_fades_are_right(page)
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(17, 22, 29)") is (look == "dark"), path


@pytest.mark.skipif(axe_absence() is not None, reason=str(axe_absence()))
def test_axe_finds_nothing_on_any_page(pages: Any) -> None:
    """Dark differs from light in nothing but colours, so only these are looked at again."""
    found = {
        (path, look): faults_of(page, only="color-contrast" if look == "dark" else "")
        for path, look, page in pages
    }
    assert {shown: faults for shown, faults in found.items() if faults} == {}


def test_a_person_walks_by_keyboard_from_the_overview_to_a_message(page: Any) -> None:
    """Before each key the page is loaded whole: until then no script listens to keys."""
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.keyboard.press("/")
    page.keyboard.type("order")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=order*")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    page.click("text=Messages")
    page.wait_for_url("**/topics/orders/messages")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders/messages/*/*")
    partition, offset = page.url.split("/")[-2:]
    page.keyboard.press("p")
    page.wait_for_url(f"**/topics/orders/messages/{partition}/{int(offset) - 1}")
    assert page.inner_text("h2") == f"Partition {partition}, offset {int(offset) - 1}"


def test_pointing_at_a_segment_says_why_it_stays_or_goes(page: Any) -> None:
    page.goto("/topics/orders/log/0")
    first, *_, last = page.query_selector_all(".shape")
    first.hover()
    until(page, lambda: "deletable" in page.inner_text("#detail"))
    assert "why: retention.ms" in page.inner_text("#detail")
    last.focus()
    assert "active" in page.inner_text("#detail")
    last.press("Enter")
    target = page.evaluate("document.querySelector('tr:target').id")
    assert target == f"segment-{last.get_attribute('data-shape')}"
    page.click("text=by offsets")
    page.wait_for_url("**scale=offsets")


def test_a_search_streams_what_it_finds_and_its_link_can_be_shared(page: Any) -> None:
    page.goto("/topics/orders/messages")
    page.fill("#where", ".tea = Sencha and .pots >= 3")
    page.fill("#limit", "10")
    page.click("text=Find")
    until(page, lambda: rows(page).count() == 10)
    page.wait_for_selector("[data-words]:has-text('10 messages found')")
    assert all("Sencha" in one for one in page.locator("[data-messages] tr").all_inner_texts())
    link = page.url
    first = page.locator("[data-messages] tr").first.inner_text()
    page.click("[data-more]")
    until(page, lambda: rows(page).count() and rows(page).first.inner_text() != first)
    page.goto(link)
    until(page, lambda: rows(page).count() == 10)
    assert page.locator("[data-messages] tr").first.inner_text() == first


def test_a_search_is_stopped_and_continued(broker: LocalBroker, page: Any) -> None:
    topic = "many"
    broker.create_topic(topic)
    for _ in range(30):
        broker.log.append_many(topic, [b"x" * 10_000] * 100)
    # Each answer brings 1 MiB: however late the browser is, the search is not at its end.
    broker.delay("fetch", 2.0)
    try:
        page.goto(f"/topics/{topic}/messages?text=nothing+such&stream=1")
        until(page, lambda: page.evaluate("document.querySelector('progress')?.value > 0"))
        page.click("[data-stop]")
        page.wait_for_selector("[data-words]:has-text('Stopped.')")
    finally:
        broker.heal()
    assert page.is_hidden("[data-stop]")
    page.click("[data-more]")
    page.wait_for_selector("[data-words]:has-text('(100 %)')")
    assert "after=0%3A" in page.url


def test_a_live_tail_of_many_messages_is_sampled_and_says_so(
    broker: LocalBroker, page: Any
) -> None:
    page.goto("/topics/payments/tail")
    page.wait_for_selector("[data-words]:has-text('a second')")
    stopped = threading.Event()

    def load() -> None:
        with ottla.Producer(broker.address) as producer:
            number = 0
            while not stopped.is_set():
                for _ in range(100):
                    producer.send("payments", b"payment %d" % number, b"load")
                    number += 1
                producer.flush()
                stopped.wait(0.05)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        page.wait_for_selector("[data-words]:has-text('this is a sample')")
        page.wait_for_selector("[data-messages] tr td.key:has-text('load')")
        page.keyboard.press(".")
        page.wait_for_selector("[data-words]:has-text('Paused.')")
        page.click("[data-stop]")
        page.wait_for_selector("[data-words]:has-text('a second')")
    finally:
        stopped.set()
        thread.join()
    assert page.evaluate("document.querySelectorAll('[data-messages] tr').length") <= 200


def test_pages_that_are_open_say_that_the_broker_is_gone_and_continue_when_it_is_back(
    chromium: Any, tmp_path: Path
) -> None:
    with LocalBroker(tmp_path / "data", FEW_LOGS) as broker, console_of(broker) as console:
        broker.produce("visits", "before")
        with admin_of(broker) as admin:
            admin.alter_group_offsets("readers", {ottla.TopicPartition("visits", 0): 0})
        context = chromium.new_context(base_url=console)
        context.set_default_timeout(PATIENCE_MS)
        jobs, group, page = (context.new_page() for _ in range(3))
        jobs.goto("/jobs")
        group.goto("/group?name=readers")
        group.wait_for_selector(".chart polyline", state="attached")
        page.goto("/topics/visits/tail")
        page.wait_for_selector("[data-words]:has-text('a second')")
        broker.crash()
        page.wait_for_selector("[data-words]:has-text('trying again')")
        for one in (jobs, group):
            one.wait_for_selector("[data-stale]:has-text('not current')")
        broker.reopen()
        page.wait_for_selector("[data-words]:has-text('a second')")
        broker.produce("visits", "after")
        page.wait_for_selector("[data-messages] tr.new:has-text('after')")
        for one in (jobs, group):
            one.wait_for_selector("[data-stale]", state="detached")
        context.close()


def test_a_group_is_drawn_over_time_while_it_is_looked_at(broker: LocalBroker, page: Any) -> None:
    page.goto("/group?name=kitchen")
    page.wait_for_selector(".chart polyline", state="attached")
    before = page.inner_text("[data-group]")
    for _ in range(7):
        broker.produce("orders", "{}", partition=0)
    until(page, lambda: page.inner_text("[data-group]") != before)


def test_a_group_is_reset_after_its_preview(broker: LocalBroker, page: Any) -> None:
    page.goto("/group?name=statistics")
    page.click("text=Reset offsets")
    page.select_option("#kind", "end")
    page.click("text=Preview")
    page.wait_for_selector("text=Commit these offsets")
    page.click("text=Commit these offsets")
    page.wait_for_selector(".done:has-text('3 offsets changed')")


def test_a_message_is_produced_with_a_form(page: Any) -> None:
    page.goto("/topics/payments/produce")
    page.fill("#key", "by hand")
    page.fill("#value", '{"tea": "<b>Assam</b>"}')
    page.fill("#headers", "waiter=Eva")
    page.click("text=Send")
    page.wait_for_selector("pre.command:has-text('ottla produce')")
    page.click("button:has-text('Send')")
    page.wait_for_selector(".done:has-text('sent to payments-0')")
    assert "<b>Assam</b>" in page.inner_text("main")
    assert page.query_selector("main b") is None


@pytest.mark.parametrize("look", ["light", "narrow"])
def test_a_topic_is_created_copied_and_deleted_by_hand(page: Any, look: str) -> None:
    page.set_viewport_size(LOOKS[look]["viewport"])
    name = f"by-hand-{look}"
    page.goto("/topics")
    page.click("text=Create a topic")
    page.fill("#name", "not a name")
    page.click("text=Preview")
    page.wait_for_selector("p.problem:has-text('topic not a name')")
    page.fill("#name", name)
    page.fill("[name='retention.ms']", "7d")
    page.select_option("[name='cleanup.policy']", "compact,delete")
    page.click("text=Preview")
    page.wait_for_selector("pre.command:has-text('retention.ms=604800000')")
    assert page.input_value("[name='retention.ms']") == "7d"
    page.click(f"text=Create {name}")
    page.wait_for_selector(f".done:has-text('{name} is created')")
    page.click("text=Copy …")
    page.fill("#new", f"{name}-2")
    page.click("text=Preview")
    page.click(f"button:has-text('Copy to {name}-2')")
    page.wait_for_selector(f".run:has-text('{name}-2') .state:has-text('done')")
    page.click(f".run:has-text('{name}-2') a")
    page.click("text=Delete the topic")
    page.click("button.danger")  # The name is not typed: the browser keeps the form.
    page.fill("#typed", f"{name}-2")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    page.click("button.danger")
    page.wait_for_selector(f".done:has-text('{name}-2 is deleted')")
    page.click("text=Audit log")
    page.wait_for_selector(f".audit tr:first-child:has-text('Delete topic {name}-2')")


def test_without_scripts_every_page_shows_the_same(chromium: Any, console: str) -> None:
    context = chromium.new_context(base_url=console, java_script_enabled=False)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    for path in PAGES:
        page.goto(path)
        assert page.locator("main h1").count() == 1, path
    page.goto("/topics/orders/messages")
    page.fill("#text", "Rooibos")
    page.click("text=Find")
    page.wait_for_url("**text=Rooibos**")
    shown = rows(page).all_inner_texts()
    while len(shown) <= 50:
        link = page.get_attribute("a:has-text('Search on')", "href")
        page.goto(link)
        shown += rows(page).all_inner_texts()
    assert all("Rooibos" in one for one in shown)
    page.goto("/topics/orders/messages?text=Rooibos&stream=1")
    page.click("text=Search without scripts")
    page.wait_for_selector("[data-messages] tr")
    context.close()


HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'{{7*7}}"


def test_hostile_strings_run_nothing_on_any_page(broker: LocalBroker, page: Any) -> None:
    broker.create_topic("hostile")
    with admin_of(broker) as admin:
        admin.alter_group_offsets(HOSTILE, {ottla.TopicPartition("hostile", 0): 0})
        admin.alter_share_group_offsets(f"{HOSTILE}s", {ottla.TopicPartition("hostile", 0): 0})
        admin.fence(HOSTILE, timeout_ms=60_000)
    broker.produce("hostile", HOSTILE, key=HOSTILE, headers=[(HOSTILE, HOSTILE.encode())])
    name = quote(HOSTILE, safe="")
    for path in (
        "/topics/hostile/messages",
        f"/topics/hostile/messages?text={name}&stream=1",
        "/topics/hostile/messages/0/0",
        "/topics/hostile/tail",
        "/groups",
        f"/group?name={name}",
        f"/group/reset?name={name}&to={name}",
        "/queues",
        f"/queue?name={name}s",
        "/transactions",
        f"/topics?q={name}&done={name}",
        f"/settings?q={name}",
    ):
        page.goto(path)
        page.wait_for_selector("main h1")
        assert page.query_selector("main img, main script") is None, path
    page.goto("/topics/hostile/tail")
    page.wait_for_selector("[data-words]:has-text('a second')")
    broker.produce("hostile", HOSTILE, key=HOSTILE, headers=[(HOSTILE, HOSTILE.encode())])
    page.wait_for_selector("[data-messages] tr.new")
    assert page.query_selector("[data-messages] img, [data-messages] script") is None


def test_the_token_is_asked_for_once_and_is_not_in_the_address(
    chromium: Any, broker: LocalBroker
) -> None:
    with console_of(broker, token="a token of this test") as console:
        context = chromium.new_context(base_url=console)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto("/topics?q=or")
        page.fill("#token", "a wrong one")
        page.click("text=Open the console")
        page.wait_for_selector("text=the token is wrong")
        page.goto("/topics?q=or&token=a+token+of+this+test")
        page.wait_for_selector("text=orders")
        assert "token" not in page.url
        page.goto("/groups")
        page.wait_for_selector("text=billing")
        context.close()


def test_another_sites_page_neither_reads_nor_changes_anything(
    chromium: Any, console: str, broker: LocalBroker
) -> None:
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(console + "/topics")
    page.route(
        "http://evil.example/**",
        lambda route: route.fulfill(
            content_type="text/html",
            body=f'<form method="post" action="{console}/topics/payments/produce">'
            '<input name="value" value="forged"><button>Win a prize</button></form>',
        ),
    )
    page.goto("http://evil.example/")
    read = page.evaluate(
        "address => fetch(address).then(() => 'read', () => 'refused')",
        f"{console}/topics?format=json",
    )
    assert read == "refused"
    page.click("text=Win a prize")
    page.wait_for_selector("text=Not allowed")
    assert not any(b"forged" in (one.value or b"") for one in broker.records("payments"))
    context.close()


def test_a_user_is_created_and_a_rule_is_asked_for_by_mouse_alone(
    chromium: Any, tmp_path: Path
) -> None:
    """The password is in no address and on no page."""
    settings = {**FEW_LOGS, **AUTHORIZER}
    with LocalBroker(tmp_path / "data", settings) as broker, console_of(broker) as console:
        page = chromium.new_page(base_url=console)
        page.set_default_timeout(PATIENCE_MS)
        page.goto("/users")
        page.fill("#user", "eva")
        page.click("text=Preview …")
        page.fill("#secret", "a secret of eva")
        page.fill("#again", "a secret of eva")
        page.click("button:has-text('Create the user')")
        page.wait_for_selector(".done:has-text('eva logs in with the new password now')")
        assert "secret" not in page.url
        assert "a secret of eva" not in page.content()
        page.click("text=ACLs >> nth=0")
        page.click("text=Add ACLs …")
        page.fill("#principal", "User:eva")
        page.select_option("#role", "producer")
        page.fill("#topic", "orders")
        page.click("text=Preview …")
        page.click("button:has-text('Add 3 ACLs')")
        page.wait_for_selector(".done:has-text('3 ACLs added')")
        page.click("text=Who may what?")
        page.fill("#principal", "eva")
        page.select_option("#operation", "write")
        page.fill("#name", "orders")
        page.click("button:has-text('Ask')")
        page.wait_for_selector(
            "[role=status]:has-text('Yes: allow User:eva write on topic orders')"
        )
        page.close()


def test_the_time_of_a_reset_is_picked_by_the_clock_of_the_reader(
    chromium: Any, console: str
) -> None:
    def page_in(zone: str) -> Any:
        page = chromium.new_page(base_url=console, timezone_id=zone)
        page.set_default_timeout(PATIENCE_MS)
        return page

    page = page_in("Asia/Kolkata")
    page.goto("/group/reset?name=billing")
    page.select_option("#kind", "time")
    assert page.inner_text("[data-zone]") in ("Asia/Kolkata", "Asia/Calcutta")
    assert not page.is_visible("#offset")
    page.fill("#time", "2026-01-31T12:00:00")
    page.click("text=Preview")
    page.wait_for_selector("text=Commit these offsets")
    assert "zone=%2B05%3A30" in page.url
    shared = page_in("UTC")
    shared.goto(page.url)
    assert shared.input_value("#time").startswith("2026-01-31T06:30")
    for one in (page, shared):
        one.close()
