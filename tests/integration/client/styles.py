"""`ottla.aio.Producer` behind the face of `ottla.Producer`: one test is for both."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import ottla.aio
from ottla.client.connecting.target import Target
from ottla.client.producing.sending import AwaitableSending
from tests.integration.consumer.styles import AsyncStyle


class AwaitedProducer(AsyncStyle):
    """Each of its coroutines is run to its end; the loop stands still in between."""

    kind = ottla.aio.Producer

    def __len__(self) -> int:
        return len(self._client)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        within = self._client.transaction()
        self._run(within.__aenter__())
        try:
            yield self
        except BaseException as error:
            if not self._run(within.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._run(within.__aexit__(None, None, None))

    def _run(self, work: Any) -> Any:
        found = super()._run(work)
        return AwaitedSending(found, super()._run) if isinstance(found, AwaitableSending) else found


@dataclass(frozen=True)
class AwaitedSending:
    sending: AwaitableSending
    run: Callable[[Any], Any]

    def result(self, timeout: float | None = None) -> Any:
        async def answer() -> Any:
            return await self.sending

        return self.run(answer())

    def done(self) -> bool:
        return self.sending.done()

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        async def add() -> None:
            self.sending.add_done_callback(callback)

        self.run(add())


@dataclass(frozen=True)
class Place:
    """How a producer of one style gets at a log."""

    target: Target
    make: Any

    def producer(self, **options: Any) -> Any:
        return self.make(self.target, **options)
