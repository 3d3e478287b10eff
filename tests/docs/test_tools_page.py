"""docs/tools.md speaks of the commands that there are, and of all their options."""

import importlib
from pathlib import Path

import click
import pytest

from ottla.cli.log import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_section_and_an_example(name: str) -> None:
    assert f"## `ottla log {name}`" in PAGE
    assert f"$ ottla log {name} " in PAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_is_explained(name: str) -> None:
    module_name, attribute = COMMANDS[name][0].split(":")
    command = getattr(importlib.import_module(module_name), attribute)
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert options
    for option in options:
        assert option.opts[0] in PAGE
