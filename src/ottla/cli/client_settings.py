"""Settings of a client in a file, for commands that ask a cluster with security."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ottla.base.errors import UserError
from ottla.storage.java_properties import parse_properties


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
    try:
        found = parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a file of client settings") from error
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    return {name: value.strip() for name, value in found.items()}
