"""Notices that brokers write for each other in a folder, with increasing numbers.

Kafka's counterpart: `ZkNodeChangeNotificationListener`.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ottla.base.values import dataclass
from ottla.controller.operations import Batch, Children, Delete, Get, Steps
from ottla.zookeeper.nodes import NodeError
from ottla.zookeeper.notices import CHANGE_EXPIRATION_MS

NONE_SEEN = -1

Named = TypeVar("Named")
Found = TypeVar("Found")


@dataclass(slots=True)
class NoticeFolder(Generic[Named, Found]):
    """A folder of notices.

    `decode` returns what a notice names, and `read` reads that. `seen` is the number of the last
    notice handled.
    """

    path: str
    decode: Callable[[str, bytes | None], Named]
    read: Callable[[Sequence[Named]], Steps[Found]]
    seen: int = NONE_SEEN

    def follow(self, now_ms: int) -> Steps[Found]:
        """Watches the folder; returns what `read` finds for the new notices.

        Any broker removes expired notices.
        """
        (folder,) = yield Batch(operations=(Children(self.path, watch=True),))
        numbers = {f"{self.path}/{one}": _number(one) for one in folder.children}
        named: list[Named] = []
        old = []
        if max(numbers.values(), default=NONE_SEEN) > self.seen:
            results = yield Batch(operations=tuple(Get(path) for path in numbers))
            for (path, number), result in zip(numbers.items(), results, strict=True):
                if result.is_done and result.created_ms + CHANGE_EXPIRATION_MS < now_ms:
                    old.append(path)
                if number <= self.seen or not result.is_done:
                    continue
                try:
                    named.append(self.decode(path, result.content))
                except NodeError:
                    continue
            self.seen = max(numbers.values())
        found = yield from self.read(named)
        if old:
            yield Batch(operations=tuple(Delete(path) for path in old))
        return found


def _number(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdigit() else NONE_SEEN
