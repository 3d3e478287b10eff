"""docs/console.md speaks of every page, key and option of the console, and shows its pictures."""

import re
from pathlib import Path

import click

from ottla.cli.console.console_command import console_command
from ottla.console.rendering import NAVIGATION, TEMPLATES
from tests.console.screenshots import DIGESTS, PICTURES, SHOTS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "console.md").read_text()
SHARED = {"--bootstrap", "--data-dir", "--context", "--client", "--client-config", "--timeout"}
"""docs/cli.md explains what all commands share."""


def test_each_page_has_its_row() -> None:
    tabs = ("Log", "Messages", "Tail", "Produce")
    for name in (*tabs, *(title for _, _, title in NAVIGATION)):
        assert f"| {name} |" in PAGE, name


def test_each_option_of_the_command_is_explained() -> None:
    for option in console_command.params:
        if isinstance(option, click.Option) and not option.hidden:
            name = option.opts[0]
            assert name in SHARED or f"`{name}" in PAGE or f"{name} " in PAGE, name


def test_each_key_is_explained() -> None:
    base = (TEMPLATES / "base.html").read_text()
    keys = set(re.findall(r"<kbd>([^<]+)</kbd>", base)) - {"Enter"}
    assert {one for one in keys if f"`{one}`" not in PAGE} == set()


def test_the_pictures_are_those_that_the_target_takes() -> None:
    assert {one.name for one in PICTURES.iterdir()} == {*SHOTS, DIGESTS}
    shown = [*re.findall(r"\]\(console/([\w-]+\.png)\)", PAGE)]
    assert set(shown) == set(SHOTS)
