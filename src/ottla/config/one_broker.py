"""Settings of a cluster's `server.properties` that a single broker cannot fulfil.

Settings that could not work at all are refused (`BrokerConfig`, `client_listeners`); these are
reported at startup, with the fix. Not in Kafka.
"""

from collections.abc import Callable, Iterator
from typing import Final

from ottla.base.values import dataclass
from ottla.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A setting as given, its consequence, and the fix."""

    name: str
    text: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.name}={self.text}: {self.what}; {self.fix}"


def _is_more_than_one(text: str) -> bool:
    return text.strip().isdigit() and int(text) > 1


def _has_several(text: str) -> bool:
    return len([one for one in text.split(",") if one.strip()]) > 1


_RULES: Final[dict[str, tuple[Callable[[str], bool], str, str]]] = {
    "min.insync.replicas": (
        _is_more_than_one,
        "there is one replica, so every append with acks=all is refused (NOT_ENOUGH_REPLICAS)",
        "set min.insync.replicas=1",
    ),
    "controller.quorum.voters": (
        _has_several,
        "this broker is its own controller, and connects to no other",
        "run one ottla serve, and ottla mirror for a copy on another machine",
    ),
    "controller.quorum.bootstrap.servers": (
        _has_several,
        "this broker is its own controller, and connects to no other",
        "run one ottla serve, and ottla mirror for a copy on another machine",
    ),
}
"""By setting: whether a value asks for too much, its consequence, and the fix."""


_ALONE: Final = ("controller.quorum.bootstrap.servers", "controller.quorum.voters")


def unfulfilled(config: BrokerConfig) -> list[str]:
    """The given settings without effect, but for those that say what a single broker is: the only
    voter of its own quorum.
    """
    given = config.given
    is_itself = {one for one in _ALONE if one in given and not _has_several(given[one])}
    return [one for one in config.without_effect if one not in is_itself]


def shortfalls(config: BrokerConfig) -> Iterator[Shortfall]:
    """Returns the settings that cannot be fulfilled, by name."""
    if config.is_quorate:
        return
    of_one = {"min.insync.replicas"} if config.zookeeper_connect else set()
    for name in sorted((config.given.keys() & _RULES.keys()) - of_one):
        asks_too_much, what, fix = _RULES[name]
        text = config.given[name]
        if asks_too_much(text):
            yield Shortfall(name=name, text=text, what=what, fix=fix)
