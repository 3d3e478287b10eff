"""What keeps a running broker from its work on the tier, stored for users.

Format page: docs/format/ottla-tier.md. One small file in the first log directory, while there is
something to report; Kafka ignores it, and has only metrics and its log. It is replaced as a whole,
and not synced: after a power failure a broker writes it again. `ottla doctor` and the console read
it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from ottla.base.files import FileSystem, join, remove_if_present, replace_file
from ottla.base.json_files import check_version, read_json_file
from ottla.base.values import dataclass

TIER_TROUBLES: Final = "ottla-tier.json"
FORMAT_VERSION: Final = 1

MOST: Final = 100
"""How many are listed; a store that is down fails everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTrouble:
    """Work that fails, since when (wall time), and its last error. `of_store`: whether the store
    has failed, and not something here. Work with `is_over` is not tried again.
    """

    what: str
    since_ms: int
    reason: str
    of_store: bool = False
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTroubles:
    """Those of one broker with the tier at an address, those that have lasted longest first."""

    address: str
    troubles: tuple[TierTrouble, ...]


def read_tier_troubles(file_system: FileSystem, directory: str) -> TierTroubles | None:
    """`None` without a file; raises `CorruptionError`."""
    path = join(directory, TIER_TROUBLES)
    return read_json_file(file_system, path, _parse, "a list of troubles")


def write_tier_troubles(
    file_system: FileSystem, directory: str, address: str, found: Sequence[TierTrouble]
) -> None:
    """Replaces the file, or removes it if there are none; raises `OSError`."""
    path = join(directory, TIER_TROUBLES)
    if not found:
        remove_if_present(file_system, path)
        return
    first = sorted(found, key=lambda one: one.since_ms)[:MOST]
    fields = {
        "version": FORMAT_VERSION,
        "address": address,
        "troubles": [asdict(one) for one in first],
    }
    replace_file(file_system, path, json.dumps(fields, indent=1).encode() + b"\n", durably=False)


def _parse(content: Any) -> TierTroubles:
    check_version(content["version"], FORMAT_VERSION)
    troubles = tuple(TierTrouble(**one) for one in content["troubles"])
    if not all(isinstance(one.since_ms, int) for one in troubles):
        raise TypeError("times are numbers")
    return TierTroubles(address=str(content["address"]), troubles=troubles)
