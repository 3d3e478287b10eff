"""docs/moving.md speaks of the options that there are."""

from pathlib import Path

import click

from ottla.cli.directory.adopt import adopt_command

PAGE = (Path(__file__).parents[2] / "docs" / "moving.md").read_text()


def test_each_option_of_adopt_is_explained() -> None:
    options = [one for one in adopt_command.params if isinstance(one, click.Option)]
    assert options
    for option in options:
        assert option.opts[0] in PAGE
