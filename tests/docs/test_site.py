"""The site of the documents: every page can be found, and every link leads somewhere."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.console.chromium import axe_absence, faults_of, opened_chromium
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PAGES = {str(one.relative_to(ROOT / "docs")) for one in (ROOT / "docs").rglob("*.md")}


def listed(part: object) -> list[str]:
    match part:
        case str():
            return [part]
        case list():
            return [page for one in part for page in listed(one)]
        case dict():
            return [page for one in part.values() for page in listed(one)]
    raise AssertionError(part)


def test_every_page_is_in_the_navigation_once() -> None:
    pages = listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(pages) == sorted(PAGES), "list each page of docs/ under nav in mkdocs.yml"


def test_the_sources_and_tests_that_documents_name_are_there() -> None:
    named = {
        (page.name, path)
        for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for path in re.findall(r"\b(?:tests|src|benchmarks|examples)/[\w/]+\.py", page.read_text())
    }
    assert len(named) > 50
    assert {(page, path) for page, path in named if not (ROOT / path).exists()} == set()


def test_no_document_installs_ottla_by_a_name_that_no_index_has() -> None:
    advised = {
        (page.name, command)
        for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for command in re.findall(
            r"(?:pip|uv) install [^`\n]*\bottla(?:\[[^`\n]*)?", page.read_text()
        )
        if "dist/" not in command
    }
    assert advised == set()


def test_each_column_of_a_table_has_a_heading() -> None:
    """What a screen reader says before each cell; axe asks for it too, of the built site."""
    heading = re.compile(r"^\|(.+)\|\n\|[-:| ]*-[-:| ]*\|$", re.MULTILINE)
    tables = {
        (page.name, cells)
        for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for cells in heading.findall(page.read_text())
    }
    assert len(tables) > 50
    assert {
        (page, cells) for page, cells in tables if not all(map(str.strip, cells.split("|")))
    } == set()


COPIED = """
const { commandsOf } = require(process.argv[1]);
console.log(JSON.stringify(commandsOf(require("fs").readFileSync(0, "utf8"))));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_commands_are_copied_without_prompts_and_output() -> None:
    block = "$ ottla topics list \\\n    -q\norders\n$ ottla stop data\nstopped pid=4711\n"
    done = subprocess.run(
        ["node", "-e", COPIED, str(ROOT / "docs" / "site.js")],
        input=block, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == "ottla topics list \\\n    -q\nottla stop data"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="zensical is not installed: make site")
    # A copy: the tool writes beside the file that it is given.
    directory = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", directory / "docs")
    shutil.copy(ROOT / "mkdocs.yml", directory)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "-f", "mkdocs.yml"],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "build" / "site"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(site: Path) -> None:
    assert {str(one.relative_to(site)) for one in site.rglob("*.html")} >= {
        re.sub(r"README$", "index", page.removesuffix(".md")) + ".html" for page in PAGES
    }
    for page in site.rglob("*.html"):
        outside = re.findall(r'(?:src|href)="(https?:[^"]*\.(?:js|css|woff2?))"', page.read_text())
        assert outside == [], f"{page.name} asks another host"


@pytest.mark.slow
@pytest.mark.skipif(axe_absence() is not None, reason=str(axe_absence()))
def test_axe_finds_nothing_on_pages_with_code_pictures_and_wide_tables(site: Path) -> None:
    found = {}
    with opened_chromium() as chromium:
        for look in ("light", "dark"):
            context = chromium.new_context(color_scheme=look)
            context.set_default_timeout(PATIENCE_S * 1000)
            page = context.new_page()
            for name in ("tutorial", "explanation/house"):
                page.goto((site / f"{name}.html").as_uri())
                page.wait_for_selector(".md-code__nav, .md-typeset__scrollwrap", state="attached")
                found[name, look] = faults_of(page)
            context.close()
    assert {one: faults for one, faults in found.items() if faults} == {}


@pytest.mark.slow
@pytest.mark.skipif(axe_absence() is not None, reason=str(axe_absence()))
def test_axe_finds_nothing_but_perhaps_contrast_on_any_page(site: Path) -> None:
    """Contrast takes nine tenths of axe's time, and is the theme's: the test above looks at it."""
    found = {}
    with opened_chromium() as chromium:
        page = chromium.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        for name in sorted(one.removesuffix(".md") for one in PAGES):
            page.goto((site / f"{re.sub('README$', 'index', name)}.html").as_uri())
            if page.query_selector("article pre, article table") is not None:
                page.wait_for_selector(".md-code__nav, .md-typeset__scrollwrap", state="attached")
            found[name] = faults_of(page, without="color-contrast")
    assert {one: faults for one, faults in found.items() if faults} == {}
