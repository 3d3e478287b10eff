"""docs/mirror.md speaks of every option that `ottla mirror` has, and of no other."""

import re
from pathlib import Path

import click
import pytest

from ottla.cli.mirror.mirror_command import mirror_command
from ottla.cli.mirror.verify import verify_command

PAGE = (Path(__file__).parents[2] / "docs" / "mirror.md").read_text()
FOREIGN = {"--data-dir", "--listen"}


def options(command: click.Command) -> set[str]:
    return {
        name
        for one in command.params
        if isinstance(one, click.Option)
        for name in [*one.opts, *one.secondary_opts]
    }


@pytest.mark.parametrize("command", [mirror_command, verify_command], ids=["mirror", "verify"])
def test_each_option_is_explained(command: click.Command) -> None:
    assert {one for one in options(command) if one not in PAGE} == set()


def test_no_option_is_made_up() -> None:
    named = set(re.findall(r"--[a-z][a-z-]+", PAGE))
    assert named - options(mirror_command) - options(verify_command) <= FOREIGN
