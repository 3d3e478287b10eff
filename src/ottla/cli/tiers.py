"""`--tier` and `--tier-key`: where the segments are that a data directory no longer has."""

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
)


def tier_of(given: Mapping[str, Any], *, is_directory: bool = True) -> "TierPlace | None":
    """The tier that the options name; raises `UserError` where there can be none."""
    address, keys = given["tier"], given["tier_key"]
    if address is None:
        if keys is not None:
            raise UserError("--tier-key is for an encrypted tier; add --tier, its place")
        return None
    if not is_directory:
        raise UserError("--tier is for a data directory; a broker reads its own tier")
    from ottla.storage.reading.opening import TierPlace

    return TierPlace(address=address, keys=keys)
