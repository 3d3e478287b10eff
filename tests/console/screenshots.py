"""The console's pictures in the documents: `make screenshots` takes them again."""

import tempfile
from pathlib import Path

from tests.console.chromium import opened_chromium
from tests.console.demo import console_of, demo_broker

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "console"
SHOTS = {
    "log.png": ("/topics/customers/log/0", "light", 1280, 560),
    "log-dark.png": ("/topics/orders/log/0", "dark", 1280, 535),
    "messages.png": ("/topics/orders/messages?where=.tea+%3D+Sencha&limit=8", "light", 1280, 760),
    "group.png": ("/group?name=billing", "light", 1280, 640),
}
"""File -> page, scheme, width and height."""


def take(folder: Path) -> None:
    """Writes each picture into a folder."""
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
            page.screenshot(path=folder / name)
            context.close()


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    take(PICTURES)
