"""`--tier` and `--config`: where the segments are that a data directory no longer has."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.cli.terminal import with_options

if TYPE_CHECKING:
    from ottla.storage.reading.opening import TierPlace

tier_options = with_options(
    click.option(
        "--tier",
        metavar="PATH-OR-URL",
        help="Remote tier of a data directory: segments that it no longer has are read there.",
    ),
    click.option(
        "--tier-key",
        type=click.Path(),
        metavar="FILE-OR-FOLDER",
        help="Private keys of an encrypted tier.",
    ),
    click.option(
        "--config",
        "tier_config",
        type=click.Path(),
        metavar="FILE",
        help="The server.properties that names the tier and its keys; instead of --tier.",
    ),
)


def tier_of(given: Mapping[str, Any], *, is_directory: bool = True) -> "TierPlace | None":
    """The tier that the options name; raises `UserError` where there can be none."""
    address, keys, config = given["tier"], given["tier_key"], given["tier_config"]
    if address is not None and config is not None:
        raise UserError("--tier and --config both name a tier; leave one of them out")
    if address is None and keys is not None:
        raise UserError("--tier-key is for an encrypted tier; add --tier, its place")
    if address is None and config is None:
        return None
    if not is_directory:
        name = "--tier" if config is None else "--config"
        raise UserError(f"{name} is for a data directory; a broker reads its own tier")
    from ottla.storage.reading.opening import TierPlace

    return TierPlace(address=address, keys=keys, config=config)
