"""The mark of a log directory's clean shutdown. Format: docs/format/clean-shutdown.md

It is written last on a clean stop and removed before anything else changes: if the file exists, no
log needs recovery. A crash cannot leave it by mistake. Kafka's counterpart:
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
NO_BROKER_EPOCH = -1
"""That of a directory of no cluster, or of which a cluster must not rely on all records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanShutdown:
    """The content of the mark; `broker_epoch` is the broker's epoch (KIP-966), if recorded."""

    broker_epoch: int | None


def read_clean_shutdown(file_system: FileSystem, path: str) -> CleanShutdown | None:
    """Returns the mark, or `None` if there is no file.

    Older brokers leave the file empty. Like Kafka, an unreadable file is treated as an empty one:
    only its existence matters.
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
    """Removes the mark durably: it must not reappear after a crash."""
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
