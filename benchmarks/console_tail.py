"""The console's tail in Chromium while records arrive: how evenly the browser draws.

The gaps between two frames are those of `requestAnimationFrame`. The same page paused, a moment
before and after, tells what the machine itself does to them.
"""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import ottla
from benchmarks.brokers import Ottla
from benchmarks.console import running_console
from benchmarks.measuring import Samples, Scale, percentile
from benchmarks.report import Report, add_figure, figures_report

RECORDS_PER_S = 1000
WATCH_S = 10
FRAME_MS = 1000 / 60
VALUE = b'{"tea": "Assam", "pots": 2, "table": {"number": 7, "garden": false}}'
NAMES = ("chromium", "chromium-browser", "google-chrome")
GAPS = """seconds => new Promise((done) => {
  const gaps = [];
  let last = performance.now();
  const end = last + seconds * 1000;
  function frame(now) {
    gaps.push(now - last);
    last = now;
    if (now < end) requestAnimationFrame(frame); else done(gaps.slice(1));
  }
  requestAnimationFrame(frame);
})"""


def run(scale: Scale) -> Iterator[Report]:
    report = figures_report(f"The console's tail of {RECORDS_PER_S:,} records/s")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        report.notes.append("not measured: Chromium is not installed")
        yield report
        return
    seconds = scale.of(WATCH_S, 1)
    with scale.data_directory() as directory, Ottla().start(directory) as broker:
        address = f"{broker.host}:{broker.port}"
        with ottla.Admin(address) as admin:
            admin.create_topic("watched")
        with running_console(broker) as console, _chromium(path) as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.goto(f"{console.address}topics/watched/tail")
            page.wait_for_selector("html.scripted [data-stop]:not([hidden])")
            with _records(address) as sent:
                page.wait_for_selector("[data-messages] tr", timeout=60_000)
                before = len(sent)
                tail = page.evaluate(GAPS, seconds)
                rate = (len(sent) - before) / seconds
                page.click("[data-stop]")
                paused = page.evaluate(GAPS, seconds)
    add_figure(report, "records produced meanwhile", Samples((rate,)), "/s")
    for name, gaps in (("the tail", tail), ("the page paused", paused)):
        for share in (50, 99):
            gap_ms = Samples((percentile(gaps, share),))
            add_figure(report, f"{name}: percentile {share} of the gap of frames", gap_ms, "ms")
        dropped = sum(round(gap / FRAME_MS) - 1 for gap in gaps if gap > 1.5 * FRAME_MS)
        missing = Samples((100 * dropped / (dropped + len(gaps)),))
        add_figure(report, f"{name}: frames that are missing", missing, "%")
    yield report


@contextmanager
def _chromium(path: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield found
        finally:
            found.close()


@contextmanager
def _records(address: str) -> Iterator[list[float]]:
    """Produces a record every millisecond, in tens; yields when each was sent."""
    sent: list[float] = []
    stopping = threading.Event()

    def produce() -> None:
        with ottla.Producer(address) as producer:
            began = perf_counter()
            while not stopping.is_set():
                due = int((perf_counter() - began) * RECORDS_PER_S) - len(sent)
                for _ in range(due):
                    producer.send("watched", VALUE)
                    sent.append(perf_counter())
                producer.flush()
                stopping.wait(10 / RECORDS_PER_S)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield sent
    finally:
        stopping.set()
        thread.join()
