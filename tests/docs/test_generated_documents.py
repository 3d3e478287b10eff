"""Documents that are made from the code say what the code says."""

import re
from pathlib import Path

from docs.generate import COMPATIBILITY, CONFIGURATION, api_table, configuration

from docs import commands, metrics, pictures, python_api, typed_settings
from ottla.cli.metrics.kinds import Kind
from ottla.cli.metrics.names import METRICS
from ottla.config.broker import broker_settings
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig
from ottla.config.without_effect import WITHOUT_EFFECT

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_the_table_of_apis_is_up_to_date() -> None:
    assert api_table() in COMPATIBILITY.read_text(), "run `make docs`"


def test_the_types_of_settings_are_up_to_date() -> None:
    assert typed_settings.module_text() == typed_settings.MODULE.read_text(), "run `make docs`"


def test_the_page_of_settings_is_up_to_date() -> None:
    assert configuration() == CONFIGURATION.read_text(), "run `make docs`"


def test_the_pages_of_commands_are_up_to_date() -> None:
    for page, text in commands.pages().items():
        assert text == page.read_text(), "run `make docs`"


def test_every_link_to_a_command_leads_to_its_section() -> None:
    sections = {
        page.name: {
            "#" + words.replace(" ", "-")
            for words in re.findall(r"^## `(.+)`$", page.read_text(), re.MULTILINE)
        }
        for page in (commands.PAGE, commands.UPKEEP_PAGE)
    }
    for page in PAGES:
        for name, anchor in re.findall(
            r"\]\((?:docs/)?(cli[a-z-]*\.md)(#ottla[^)]*)\)", page.read_text()
        ):
            assert anchor in sections[name], f"{page.name} links to {name}{anchor}"


def test_the_pages_of_the_python_api_are_up_to_date() -> None:
    made = python_api.pages()
    assert {*python_api.FOLDER.glob("*.md"), python_api.PAGE} == made.keys(), "run `make docs`"
    for page, text in made.items():
        assert text == page.read_text(), "run `make docs`"


def test_no_page_is_longer_than_anybody_reads() -> None:
    assert {page.name for page in PAGES if page.stat().st_size > 100_000} == set()


def test_the_pictures_are_up_to_date() -> None:
    for name, text in pictures.pictures().items():
        assert (pictures.PLACE / name).read_text() == text, "run `make docs`"


def test_the_page_of_settings_is_complete() -> None:
    page = CONFIGURATION.read_text()
    for row in [*broker_settings().values(), *settings_of(TopicConfig).values()]:
        assert f"| `{row.name}` |" in page
        assert row.doc in page
    for name in [
        *broker_settings(),
        *(name for names in WITHOUT_EFFECT.values() for name in names),
    ]:
        assert f"`{name}`" in page, name


def test_the_page_of_metrics_and_the_dashboard_are_up_to_date() -> None:
    assert metrics.page() == metrics.PAGE.read_text(), "run `make docs`"
    assert metrics.dashboard() == metrics.DASHBOARD.read_text(), "run `make docs`"


def test_the_dashboard_and_the_alerts_ask_for_metrics_that_exist() -> None:
    exported = {
        name
        for one in METRICS.values()
        for name in (
            [one.name + end for end in ("_bucket", "_sum", "_count")]
            if one.kind is Kind.HISTOGRAM
            else [one.name + "_total" if one.kind is Kind.COUNTER else one.name]
        )
    }
    for text in (metrics.HEAD, metrics.DASHBOARD.read_text()):
        assert set(re.findall(r"\bottla_\w+", text)) <= exported


def test_every_link_leads_to_a_page() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_format_page_is_listed() -> None:
    index = (ROOT / "docs" / "format" / "README.md").read_text()
    for page in (ROOT / "docs" / "format").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, f"{page.name} is not listed"
