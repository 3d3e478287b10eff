"""docs/tools.md speaks of the commands that there are, and of all their options."""

import importlib
from pathlib import Path

import click
import pytest

from ottla.cli.main import COMMANDS as TOP_COMMANDS
from ottla.cli.main import explain_group, log_group, transactions_group
from ottla.cli.terminal import ExampleCommand
from ottla.storage.diagnosis.open_transactions import Verdict
from ottla.storage.retention.retention import Blocker

SHARED = ExampleCommand.SHARED
"""docs/cli.md explains what all commands share."""
PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
COMMANDS = {
    **{f"log {name}": where for name, where in log_group.table.items()},
    **{f"explain {name}": where for name, where in explain_group.table.items()},
    **{f"transactions {name}": where for name, where in transactions_group.table.items()},
    "doctor": TOP_COMMANDS["doctor"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_section_and_an_example(name: str) -> None:
    assert f"## `ottla {name}`" in PAGE
    assert f"$ ottla {name} " in PAGE


def test_each_verdict_on_an_open_transaction_is_explained() -> None:
    assert all(f"| `{one.value}` |" in PAGE for one in Verdict)


def test_whatever_keeps_a_segment_is_explained() -> None:
    assert all(f"| `{one.value}` |" in PAGE for one in Blocker)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_is_explained(name: str) -> None:
    module_name, attribute = COMMANDS[name][0].split(":")
    command = getattr(importlib.import_module(module_name), attribute)
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert options
    for option in options:
        if not SHARED & {*option.opts}:
            assert option.opts[0] in PAGE
