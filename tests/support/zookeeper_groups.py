"""Groups in ZooKeeper, looked at from outside, and a thread that reads as one of their members."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import ottla

SESSION_MS = 6000
"""Nobody is to lose it because the host is busy: what was not committed would be read twice."""


class Registry:
    """What stands in ZooKeeper of one group; `client` is kazoo's."""

    def __init__(self, client: Any, group: str) -> None:
        self.client = client
        self.path = f"/consumers/{group}"

    def nodes(self, folder: str) -> dict[str, str]:
        from kazoo.exceptions import NoNodeError

        path = f"{self.path}/{folder}"
        if not self.client.exists(path):
            return {}
        found = {}
        for name in self.client.get_children(path):
            with suppress(NoNodeError):  # it has gone meanwhile
                found[name] = self.client.get(f"{path}/{name}")[0].decode()
        return found

    def owners(self, topic: str) -> Counter[str]:
        """How many partitions each consumer owns."""
        return Counter(self.nodes(f"owners/{topic}").values())


class Reader:
    """A consumer in a thread of its own; `seen` are partitions and offsets."""

    def __init__(self, address: str, group: str, topic: str, settings: Mapping[str, str]) -> None:
        self.seen: list[tuple[int, int]] = []
        self.failure: BaseException | None = None
        self._arguments = (address, group, topic, settings)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        address, group, topic, settings = self._arguments
        try:
            with ottla.Consumer(address, group, settings=settings) as consumer:
                consumer.subscribe(topic)
                while not self._is_over.is_set():
                    record = consumer.poll(0.1)
                    if record is not None:
                        self.seen.append((record.partition, record.offset))
        except BaseException as error:
            self.failure = error

    def start(self) -> "Reader":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def check(self) -> None:
        """Raises what the thread ended with, if it was a failure."""
        if self.failure is not None:
            raise self.failure


@contextmanager
def reader(address: str, group: str, topic: str, settings: Mapping[str, str]) -> Iterator[Reader]:
    one = Reader(address, group, topic, settings).start()
    with ExitStack() as stack:
        stack.callback(one.check)
        stack.callback(one.stop)
        yield one
