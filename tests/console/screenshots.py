"""The console's pictures in the documents, and those of every page to look at: `make screenshots`
takes them again.

Beside the pictures, `screenshots.json` has a digest of the page behind each of them, so that a test
reports a picture whose page has changed.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.console.chromium import opened_chromium
from tests.console.demo import console_of, demo_broker

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "console"
EVERY_PAGE = Path(__file__).resolve().parents[2] / "build" / "screenshots"
"""Pictures to look at, which are not part of the documents."""
DIGESTS = "screenshots.json"
SHOTS = {
    "log.png": ("/topics/customers/log/0", "light", 1280, 560),
    "log-dark.png": ("/topics/orders/log/0", "dark", 1280, 535),
    "messages.png": ("/topics/orders/messages?where=.tea+%3D+Sencha&limit=8", "light", 1280, 760),
    "group.png": ("/group?name=billing", "light", 1280, 640),
}
"""File -> page, scheme, width and height."""

NUMBER = r"[-+−]?\d[\d.,:]*(?: ?(?:ms|s|m|h|d|B|KiB|MiB|GiB|%)(?!\w))?"
VARYING = re.compile(rf"/\S+/(?=data/)|{NUMBER}(?:\s*{NUMBER})*")
"""The folder of the broker's directory, and ports, times, sizes and counts with their units."""
NODES = """() => {
  const outline = node => node.nodeType === Node.TEXT_NODE
    ? node.data
    : [node.tagName.toLowerCase(), node.getAttribute("class") ?? "",
       ...[...node.childNodes].filter(isShown).map(outline)];
  const isShown = node => node.nodeType === Node.TEXT_NODE
    ? node.data.trim() : node.nodeType === Node.ELEMENT_NODE && node.checkVisibility();
  return outline(document.body);
}"""
"""A page as nested lists: an element's name, its classes, and the texts and elements within."""


def take(folder: Path) -> None:
    """Writes each picture, and the digests of their pages, into a folder."""
    digests = {}
    with (
        tempfile.TemporaryDirectory() as directory,
        demo_broker(Path(directory) / "data") as broker,
        console_of(broker) as console,
        opened_chromium() as chromium,
    ):
        for name, (path, scheme, width, height) in SHOTS.items():
            viewport = {"width": width, "height": height}
            context = chromium.new_context(base_url=console, color_scheme=scheme, viewport=viewport)
            page = context.new_page()
            page.goto(path)
            page.wait_for_selector("html.scripted main h1")
            if path.startswith("/group?"):
                for share in range(4):
                    page.wait_for_timeout(2100)
                    for _ in range(20 * share):
                        broker.produce("orders", "{}", partition=share % 3)
            picture = page.screenshot(path=folder / name)
            digests[name] = {
                "page": digest_of(page.evaluate(NODES)),
                "picture": hashlib.sha256(picture).hexdigest(),
            }
            context.close()
    (folder / DIGESTS).write_text(json.dumps(digests, indent=2) + "\n")


def digest_of(nodes: list[Any]) -> str:
    """The SHA-256 of what a page shows and how it is built, whatever its numbers are."""
    return hashlib.sha256("\n".join(outline(nodes)).encode()).hexdigest()


def outline(node: list[Any] | str, indent: str = "") -> Iterator[str]:
    """The lines of an element: repeated neighbours, such as rows, count as one."""
    if isinstance(node, str):
        yield indent + VARYING.sub("#", " ".join(node.split()))
        return
    tag, classes, *children = node
    yield f"{indent}<{tag} {classes}>"
    for lines, _ in groupby(tuple(outline(child, indent + " ")) for child in children):
        yield from lines


def take_all(folder: Path) -> None:
    """Writes a picture of every page, whole, on a desktop and on a phone, light and dark."""
    from tests.console.test_browser import PAGES

    with (
        tempfile.TemporaryDirectory() as directory,
        demo_broker(Path(directory) / "data") as broker,
        console_of(broker) as console,
        opened_chromium() as chromium,
    ):
        for name, (width, height) in {"desktop": (1280, 860), "phone": (390, 780)}.items():
            viewport = {"width": width, "height": height}
            for scheme in ("light", "dark"):
                context = chromium.new_context(
                    base_url=console, color_scheme=scheme, viewport=viewport
                )
                page = context.new_page()
                for path in PAGES:
                    page.goto(path)
                    page.wait_for_selector("html.scripted h1")
                    page.wait_for_selector("[aria-busy=true]", state="detached")
                    text = re.sub(r"[^\w]+", "-", path).strip("-") or "overview"
                    page.screenshot(path=folder / f"{text}.{name}-{scheme}.png", full_page=True)
                context.close()


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    EVERY_PAGE.mkdir(parents=True, exist_ok=True)
    take_all(EVERY_PAGE)
    take(PICTURES)
