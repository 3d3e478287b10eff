"""Parses the source and target of a command: data directories, or HOST:PORT of a broker."""

import os
from collections.abc import Callable

from ottla.base.addresses import parse_address
from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.client.connecting.security import PLAINTEXT, Security
from ottla.mirror.broker_source import BrokerSource
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.source import Source
from ottla.storage.findings import Finding
from ottla.storage.reading.opening import TierPlace

ADDRESS = lazy_pattern(r"(\[[^\]/]+\]|[^/:]+):\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a source needs besides its name: `security` is a broker's, `tier` a directory's."""

    security: Security = PLAINTEXT
    tier: TierPlace | None = None


def open_source(
    place: str,
    *,
    sleep: Callable[[float], None],
    security: Security = PLAINTEXT,
    on_damage: Callable[[Finding], None] | None = None,
    tier: TierPlace | None = None,
) -> Source:
    """Opens a source by its name; raises `UserError`.

    `security` is only for a broker, `on_damage` and `tier` only for a directory (see
    `open_directories`).
    """
    # An existing directory is a directory, even if its name looks like HOST:PORT.
    if not os.path.isdir(place) and is_address(place):
        if on_damage is not None:
            raise UserError(f"{place} is a broker; --skip-damaged is for a data directory")
        if tier is not None:
            raise UserError(f"{place} is a broker, which reads its own tier; omit --tier")
        return BrokerSource(*parse_address(place), sleep=sleep, security=security)
    if security != PLAINTEXT:
        raise UserError(f"{place} is not HOST:PORT of a broker; leave out the client settings")
    first, *others = directories_of(place)
    return DirectorySource(first, others=others, on_damage=on_damage, tier=tier)


def directories_of(place: str) -> list[str]:
    """The directories in a comma-separated list, as in `log.dirs`."""
    if os.path.isdir(place):
        return [place]
    return [one.strip() for one in place.split(",") if one.strip()] or [place]


def is_address(place: str) -> bool:
    """Whether a text looks like HOST:PORT."""
    return ADDRESS.fullmatch(place) is not None


def target_directory(place: str) -> str:
    """The data directory to be written; raises `UserError` for a broker's address."""
    if not os.path.isdir(place) and is_address(place):
        raise UserError(
            f"{place} is a broker, and records cannot be written to one with their offsets; name "
            "the data directory of a stopped Ottla broker, or use --mode reproduce, which assigns "
            "new offsets"
        )
    return place


def check_apart(source: str, target: str) -> None:
    """Raises `UserError` if source and target are the same directory."""
    for one in directories_of(source):
        if os.path.isdir(one) and os.path.realpath(one) == os.path.realpath(target):
            raise UserError(f"{one} and {target} are the same directory; name another target")
