"""The existing topics and the settings of groups, for the group coordinator."""

from collections.abc import Callable, Iterator
from typing import Protocol

from ottla.base.ids import Uuid
from ottla.config.group import GroupConfig


class CatalogTopic(Protocol):
    """The fields of a topic that groups need."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> Uuid: ...

    @property
    def partition_count(self) -> int: ...


class TopicCatalog(Protocol):
    """The existing topics."""

    @property
    def revision(self) -> int:
        """A number that increases whenever a topic is created, deleted or extended."""

    def __iter__(self) -> Iterator[CatalogTopic]: ...

    def find(self, name: str) -> CatalogTopic | None: ...


GroupConfigLookup = Callable[[str], GroupConfig]
"""Returns the settings of a group id. Called for each heartbeat, because clients change settings.
"""
