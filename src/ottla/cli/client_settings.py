"""Settings of a client in a file, for commands that ask a cluster with security."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.settings_files import read_properties

if TYPE_CHECKING:
    from ottla.client.security import Security


def config_option(side: str) -> Callable[[Any], Any]:
    """`--source-config` or `--target-config`."""
    return click.option(
        f"--{side}-config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"Security of the {side}'s cluster: lines such as security.protocol=SASL_SSL.",
    )


def read_client_settings(path: Path | None) -> dict[str, str]:
    """The settings in a file, by librdkafka's names; raises `UserError` naming it."""
    if path is None:
        return {}
    return read_properties(path, "a file of client settings", encoding="utf-8")


def read_security(path: Path | None) -> "Security":
    """How to speak to a cluster, as a file's settings say; raises `UserError`."""
    from ottla.client.security import parse_security

    return parse_security(read_client_settings(path))
