"""The topics there are and the settings of groups, as the coordinator of groups asks for them."""

from collections.abc import Callable, Iterator
from typing import Protocol

from ottla.base.ids import Uuid
from ottla.config.group import GroupConfig


class CatalogTopic(Protocol):
    """A topic as far as groups need to know it."""

    name: str
    topic_id: Uuid
    partition_count: int


class TopicCatalog(Protocol):
    """The topics there are."""

    @property
    def revision(self) -> int:
        """Rises whenever one comes, goes or grows."""

    def __iter__(self) -> Iterator[CatalogTopic]: ...

    def find(self, name: str) -> CatalogTopic | None: ...


GroupConfigLookup = Callable[[str], GroupConfig]
"""The settings of a group, by its id; looked up for each heartbeat, since clients change them."""
