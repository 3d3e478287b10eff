"""A source or a target as a person names it: data directories, or HOST:PORT of a broker."""

import os
import re
from collections.abc import Callable

from ottla.base.addresses import parse_address
from ottla.base.errors import UserError
from ottla.client.security import PLAINTEXT, Security
from ottla.mirror.broker_source import BrokerSource
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.source import Source
from ottla.storage.reading.read_damage import Damage

ADDRESS = re.compile(r"(\[[^\]/]+\]|[^/:]+):\d+")


def open_source(
    place: str,
    *,
    sleep: Callable[[float], None],
    security: Security = PLAINTEXT,
    on_damage: Callable[[Damage], None] | None = None,
) -> Source:
    """A directory that is there is one, whatever it is called. Raises `UserError`.

    `security` is for a broker, `on_damage` for a directory: see `open_for_reading`.
    """
    if not os.path.isdir(place) and is_address(place):
        if on_damage is not None:
            raise UserError(f"{place} is a broker; --skip-damaged is for a data directory")
        return BrokerSource(*parse_address(place), sleep=sleep, security=security)
    if security != PLAINTEXT:
        raise UserError(f"{place} is no broker's HOST:PORT; leave the settings of a client out")
    first, *others = directories_of(place)
    return DirectorySource(first, others=others, on_damage=on_damage)


def directories_of(place: str) -> list[str]:
    """One, or several with commas between them, as `log.dirs` has them."""
    if os.path.isdir(place):
        return [place]
    return [one.strip() for one in place.split(",") if one.strip()] or [place]


def is_address(place: str) -> bool:
    """Whether a text looks like HOST:PORT."""
    return ADDRESS.fullmatch(place) is not None


def target_directory(place: str) -> str:
    """The data directory that is to be written; raises `UserError` for a broker's address."""
    if not os.path.isdir(place) and is_address(place):
        raise UserError(
            f"{place} is a broker, and Kafka's protocol has no way to write offsets into one; name "
            "the data directory of a stopped Ottla broker, or use --mode reproduce, where offsets "
            "change"
        )
    return place


def check_apart(source: str, target: str) -> None:
    """Raises `UserError` when a directory is to be mirrored into itself."""
    for one in directories_of(source):
        if os.path.isdir(one) and os.path.realpath(one) == os.path.realpath(target):
            raise UserError(f"{one} and {target} are the same directory; name another target")
