"""The system's Chromium, driven by playwright, and axe-core from npm. Nothing is downloaded."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).with_name("axe") / "node_modules" / "axe-core" / "axe.min.js"


@cache
def absence() -> str | None:
    """Why no page can be opened, with the fix."""
    if chromium() is None:
        return "chromium is not installed (apt-get install chromium)"
    try:
        import playwright  # noqa: F401
    except ModuleNotFoundError:
        return "playwright is not installed (pip install playwright)"
    return None


def chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@cache
def axe_absence() -> str | None:
    return absence() or (None if AXE.exists() else "axe-core is not installed (make console-axe)")


@contextmanager
def opened_chromium() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield found
        finally:
            found.close()


def faults_of(page: Any, without: str = "", only: str = "") -> list[str]:
    """The rules that a page breaks, of all, all `without` one, or `only` one, and where."""
    page.evaluate(AXE.read_text())
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if without:
        options["rules"] = {without: {"enabled": False}}
    if only:
        options["runOnly"] = [only]
    found = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{one['id']}: {node['target']} {node.get('failureSummary', '')}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
