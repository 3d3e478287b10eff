"""A broker that is never idle: it appends to two topics, rolls, deletes from one, cleans one."""

import random
import threading
import time
from collections.abc import Callable

import ottla
from ottla.record.builder import RecordBatchBuilder

KEY_COUNT = 20


class BusyBroker:
    """Does one thing after the other in a thread, and knows the key of each offset.

    `plain` and `compacted` have one partition each. A value says which topic and offset it is of.
    """

    def __init__(
        self, log: ottla.Log, seed: int, *, quiet_share: int = 1, segment_bytes: int = 2048
    ) -> None:
        """Of `quiet_share` + 2 rounds one deletes, one compacts, and the others only append."""
        self.keys: dict[str, list[bytes]] = {"plain": [], "compacted": []}
        self._log = log
        self._chance = random.Random(seed)
        self._actions: list[Callable[[], None]] = [self._delete, self._compact]
        self._actions += [lambda: None] * quiet_share
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._act)
        self._until = 0.0
        settings = {"segment.bytes": segment_bytes, "file.delete.delay.ms": 0}
        log.create_topic("plain", config=settings)
        log.create_topic("compacted", config={"cleanup.policy": "compact", **settings})
        for topic in self.keys:
            self._append(topic)

    def start(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        """Waits for the end, if it has begun; raises what stopped it before its time."""
        if self._thread.ident is not None:
            self._thread.join()
        for error in self._failed:
            raise error

    def last_of_each_key(self, topic: str) -> set[int]:
        """The offsets that no compaction may remove."""
        return set({key: offset for offset, key in enumerate(self.keys[topic])}.values())

    def _act(self) -> None:
        try:
            while time.monotonic() < self._until:
                self._append("plain")
                self._append("compacted")
                self._chance.choice(self._actions)()
        except BaseException as error:
            self._failed.append(error)

    def _append(self, topic: str) -> None:
        keys = self.keys[topic]
        builder = RecordBatchBuilder()
        for _ in range(self._chance.randint(1, 30)):
            key = b"%d" % self._chance.randrange(KEY_COUNT)
            builder.append(key, value_of(topic, len(keys)), 1)
            keys.append(key)
        self._log.append_batch(topic, 0, builder)

    def _delete(self) -> None:
        start, end = self._log.offsets("plain")[0]
        self._log.broker.admin.delete_records({("plain", 0): self._chance.randint(start, end)})

    def _compact(self) -> None:
        self._log.compact("compacted")


def value_of(topic: str, offset: int) -> bytes:
    return b"%s-%d" % (topic.encode(), offset)
