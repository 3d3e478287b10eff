"""Versions of Kafka as settings name them, and the message format that each brought.

`inter.broker.protocol.version` and `message.format.version` take texts like `0.10.2`, `2.8-IV1` or
`3.0.1`. Kafka's counterparts: `MetadataVersion`, `ApiVersion`.
"""

import re
from functools import cache
from typing import Final

from ottla.base.patterns import lazy_pattern

FORMATS_ARE_IGNORED_FROM: Final = (3, 0)
"""From this protocol version on every topic is stored in v2, whatever its settings say
(KIP-724).
"""

FIRST_V1: Final = (0, 10, 0)
"""Timestamps and relative offsets inside wrappers (KIP-31, KIP-32)."""

FIRST_V2: Final = (0, 11, 0)
"""Record batches (KIP-98)."""

STEPS: Final = (
    "0.8.0:0 0.8.1:0 0.8.2:0 0.9.0:0 0.10.0:2 0.10.1:3 0.10.2:1 0.11.0:3 1.0:1 1.1:1 "
    "2.0:2 2.1:3 2.2:2 2.3:2 2.4:2 2.5:1 2.6:1 2.7:3 2.8:2 "
    "3.0:2 3.1:1 3.2:1 3.3:4 3.4:1 3.5:3 3.6:3 3.7:5 3.8:1 3.9:1 4.0:4 4.1:2 4.2:2 4.3:1 4.4:3"
)
"""Every release line, with its number of steps (IV0, IV1, ...)."""

RELEASES: Final = {
    tuple(map(int, release.split("."))): int(count)
    for release, count in (one.split(":") for one in STEPS.split())
}

_TEXT = lazy_pattern(r"(0(?:\.\d+){2}|[1-9]\d*\.\d+)(?:(?:\.\d+)*|-IV(\d+))", re.ASCII)


def release_of(text: str) -> tuple[int, ...]:
    """Returns the release line of a version; raises `ValueError` if there is none."""
    return step_of(text)[:-1]


def step_of(text: str) -> tuple[int, ...]:
    """Returns the release line and the step (by default the last); later steps are greater.

    Raises `ValueError` for an unknown version.
    """
    match = _TEXT.fullmatch(text)
    release = tuple(int(part) for part in match[1].split(".")) if match else ()
    if match is None or release not in RELEASES:
        raise ValueError(f"Version {text} is not a valid version")
    step = RELEASES[release] - 1 if match[2] is None else int(match[2])
    if step > max(RELEASES[release] - 1, 0):
        raise ValueError(f"Version {text} is not a valid version")
    return (*release, max(step, 0))


@cache
def magic_of(text: str) -> int:
    """Returns the message format of a Kafka version: 0, 1 or 2; raises `ValueError`."""
    release = release_of(text)
    if release < FIRST_V1:
        return 0
    return 1 if release < FIRST_V2 else 2


def honours_old_formats(protocol_version: str) -> bool:
    """Whether brokers with this version store topics in the format that the topics' settings ask
    for.
    """
    return release_of(protocol_version) < FORMATS_ARE_IGNORED_FROM
