"""Documents that are made from the code say what the code says."""

import re
from pathlib import Path

from docs.generate import COMPATIBILITY, api_table

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_the_table_of_apis_is_up_to_date() -> None:
    assert api_table() in COMPATIBILITY.read_text(), "run `make docs`"


def test_every_link_leads_to_a_page() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_format_page_is_listed() -> None:
    index = (ROOT / "docs" / "format" / "README.md").read_text()
    for page in (ROOT / "docs" / "format").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, f"{page.name} is not listed"
