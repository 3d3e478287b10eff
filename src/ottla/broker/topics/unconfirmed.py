"""The topics whose settings are unknown: nothing in them is deleted or compacted.

They are on the disks, and the metadata log does not have them. Confirming their settings puts them
into it. Kafka has no counterpart.
"""

import logging
from collections.abc import Mapping, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError

logger = logging.getLogger(__name__)

NAMED_AT_MOST = 5


class Unconfirmed:
    """`unknown` maps the topics to the reasons; `lines` are the messages to show at startup."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.unknown: dict[str, str] = {}
        self.lines: tuple[str, ...] = ()
        self._paths = paths

    def is_unknown(self, topic: str) -> bool:
        return topic in self.unknown

    def report(self) -> None:
        """Makes the messages about what a start has found, and logs them."""
        self.lines = tuple(unknown_lines(self.unknown, self._paths))
        for line in self.lines:
            logger.warning("%s", line)

    def hold(self, topic: str, reason: str) -> None:
        """Adds a topic that is found, or created, without known settings."""
        self.unknown[topic] = reason

    def forget(self, topic: str) -> None:
        """Removes a topic that was deleted, or has known settings."""
        self.unknown.pop(topic, None)

    def check_known(self, topic: str) -> None:
        """Raises `ApiError` for a change of a topic whose other settings are unknown."""
        reason = self.unknown.get(topic)
        if reason is not None:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"The settings of topic '{topic}' are unknown, since {reason}: stop the broker and "
                f"run ottla adopt {' '.join(self._paths)}",
            )


def tierless_line(topics: Sequence[str]) -> str:
    """The line about topics with `remote.storage.enable` on a broker that has no tier.

    Kafka does not start then.
    """
    return (
        f"remote.storage.enable is true for {_named(sorted(topics))}, and this broker has no tier: "
        "offsets before the local segments cannot be read, and no segment is deleted that may not "
        "be in the tier; set remote.log.storage.system.enable=true and the tier's settings"
    )


def unknown_lines(unknown: Mapping[str, str], paths: Sequence[str]) -> list[str]:
    """Returns one line per reason, with the topics and the fix; none if all settings are known."""
    topics: dict[str, list[str]] = {}
    for name, reason in sorted(unknown.items()):
        topics.setdefault(reason, []).append(name)
    return [
        f"nothing of {_named(names)} is deleted or compacted, since {reason}: "
        f"stop the broker and run ottla adopt {' '.join(paths)}"
        for reason, names in topics.items()
    ]


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return f"topic{'s' if len(names) > 1 else ''} {', '.join(names[:NAMED_AT_MOST])}{more}"
