"""The mark that a log directory was closed in order. Format: docs/format/clean-shutdown.md

It is written last on a clean stop and removed before anything else changes, so its *presence* says
that no log needs recovery. A crash cannot leave it by mistake. Kafka's counterpart:
`CleanShutdownFileHandler`.
"""

import json

from ottla.base.files import (
    FileSystem,
    parent_directory,
    read_file,
    remove_if_present,
    replace_file,
)
from ottla.base.values import dataclass

VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanShutdown:
    """A mark that is there; `broker_epoch` is the epoch the broker had (KIP-966), if it says."""

    broker_epoch: int | None


def read_clean_shutdown(file_system: FileSystem, path: str) -> CleanShutdown | None:
    """The mark, or `None`.

    Older brokers left the file empty, and Kafka takes one it cannot read for such a one: only
    that it is there counts.
    """
    try:
        content = read_file(file_system, path)
    except FileNotFoundError:
        return None
    return CleanShutdown(broker_epoch=_broker_epoch(content))


def write_clean_shutdown(file_system: FileSystem, path: str, broker_epoch: int) -> None:
    content = f'{{"version":{VERSION},"brokerEpoch":{broker_epoch}}}'
    replace_file(file_system, path, content.encode())


def remove_clean_shutdown(file_system: FileSystem, path: str) -> None:
    """Takes the mark away for good: a crash right after it must find it gone."""
    remove_if_present(file_system, path)
    file_system.sync_directory(parent_directory(path))


def _broker_epoch(content: bytes) -> int | None:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        return None
    epoch = fields.get("brokerEpoch")
    return epoch if type(epoch) is int and -1 <= epoch < 1 << 63 else None
