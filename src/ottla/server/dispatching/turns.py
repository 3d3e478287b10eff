"""Long requests, each on a thread of its own that runs only while the loop waits for it.

Nothing of the broker is touched in parallel: the loop lets one thread run, and continues when the
request yields (`base/turns.py`) or is done. So a request can be suspended wherever its code yields,
however deep in decoding, handling or encoding, and only there. The loop runs one slice in each
round, for one request after the other. Syncs of new files and decompression of batches continue in
parallel (`aside`).

Kafka's counterpart: the threads of `KafkaRequestHandlerPool`, which the system suspends.
"""

import logging
from collections import deque
from collections.abc import Callable
from threading import Lock, Thread
from time import perf_counter
from typing import Final

from ottla.base.errors import ProtocolError
from ottla.base.turns import CURRENT, Turn
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.primitives import Output
from ottla.server.dispatching.request_context import PendingResponse

logger = logging.getLogger(__name__)

SLICE_S: Final = 0.002
"""How long a request runs before it yields to others."""

MAX_ELEMENTS: Final = 170_000
"""Maximum elements of one request in all its arrays, and of a response with more elements than its
request: nearly three times what 10,000 partitions need. A million take gigabytes as objects, and a
dict that grows beyond 174,762 members is copied at once, which takes up to 6 ms."""

MAX_RESPONSE_SIZE: Final = 100 * 1024 * 1024
"""The default of `socket.request.max.bytes`."""

MAX_THREADS: Final = 64
MAX_ELEMENTS_AT_WORK: Final = 500_000
"""Maximum elements of all running requests; others wait undecoded."""


class CancelledError(BaseException):
    """Ends a suspended request whose client has disconnected."""


class LongRequest(Waiting[bool]):
    """One request that runs or waits to run. `work` returns what the response waits for, if any.

    `weight` is an upper bound of its elements: each takes at least a byte.
    """

    __slots__ = (
        "_has_stopped",
        "_is_begun",
        "_is_cancelled",
        "_is_running",
        "_may_run",
        "_on_return",
        "_work",
        "error",
        "is_away",
        "is_over",
        "later",
        "output",
        "turn",
        "weight",
    )

    def __init__(
        self,
        work: Callable[[Output], PendingResponse | None],
        frame_size: int,
        now_s: Callable[[], float],
        on_return: Callable[["LongRequest"], None],
    ) -> None:
        super().__init__()
        self.weight = min(frame_size, MAX_ELEMENTS)
        self.turn = Turn(
            self._suspend, now_s, max_elements=MAX_ELEMENTS, max_size=MAX_RESPONSE_SIZE
        )
        self.turn.leave = self._leave
        self.turn.come_back = self._come_back
        self.output = Output()
        self.output.turn = self.turn
        self.later: PendingResponse | None = None
        self.error: BaseException | None = None
        self.is_over = False
        self.is_away = False
        self._on_return = on_return
        self._work: Callable[[Output], PendingResponse | None] | None = work
        self._is_begun = False
        self._is_cancelled = False
        self._is_running = False
        self._may_run = Lock()
        self._may_run.acquire()
        self._has_stopped = Lock()
        self._has_stopped.acquire()

    # For the loop

    def run_until(self, until_s: float) -> bool:
        """Runs until a time; returns whether the request is done."""
        assert not self.is_over
        self.turn.until_s = until_s
        if not self._is_begun:
            self._is_begun = True
            Thread(target=self._run, name="ottla-long-request", daemon=True).start()
        self._is_running = True
        self._may_run.release()
        self._await_stop()
        return self.is_over

    def cancel(self) -> bool:
        """Cancels the request; returns whether it has ended."""
        if self._is_running:
            self._await_stop()  # the loop was interrupted in the middle of `run_until`
        self._is_cancelled = True
        if self._is_begun and not self.is_over and not self.is_away:
            self.run_until(0.0)
        return self.is_over or not self._is_begun

    def _await_stop(self) -> None:
        self._has_stopped.acquire()
        self._is_running = False

    # In the thread

    def _run(self) -> None:
        self._may_run.acquire()
        CURRENT.set(self.turn)
        assert self._work is not None
        try:
            if not self._is_cancelled:
                self.later = self._work(self.output)
        except CancelledError:
            pass
        except ProtocolError as error:
            # Without what it was raised from: those frames hold the request, for the collector.
            error.__cause__ = error.__context__ = None
            self.error = error.with_traceback(None)
        except BaseException as error:
            self.error = error
        self.output.turn = None
        self._work = None  # and with it the request, whose arrays are then freed
        self.turn.free()
        self.turn.end()
        self.is_over = True
        self._has_stopped.release()

    def _leave(self) -> None:
        self.is_away = True
        self._has_stopped.release()

    def _come_back(self) -> None:
        self._on_return(self)
        self._may_run.acquire()
        self._check_wanted()

    def _suspend(self) -> None:
        self._has_stopped.release()
        self._may_run.acquire()
        self._check_wanted()

    def _check_wanted(self) -> None:
        if self._is_cancelled and not self.turn.is_kept:
            raise CancelledError


class LongAnswer(PendingResponse):
    """The response to a long request, which mutes its connection until then."""

    __slots__ = ("request",)

    def __init__(self, request: LongRequest) -> None:
        super().__init__(request)
        self.request = request

    def deliver(self, output: Output) -> PendingResponse | None:
        """Returns the response, or what it waits for next; raises the request's error."""
        request = self.request
        error, request.error = request.error, None
        if error is not None:
            try:
                raise error
            finally:
                # Its frames hold the connection with its buffer, and must not be held by it.
                del error
        output.append_all(request.output)
        return request.later


class LongRequests:
    """All of them, in the order in which they came. `has_work`: some can continue.

    `wake` is called in another thread when one that was aside can, and `take_back` is to follow.
    """

    def __init__(self, wake: Callable[[], None], now_s: Callable[[], float] = perf_counter) -> None:
        self._wake = wake
        self._now_s = now_s
        self._begun: set[LongRequest] = set()
        self._at_work: deque[LongRequest] = deque()
        self._waiting: deque[LongRequest] = deque()
        self._returned: deque[LongRequest] = deque()
        self._weight = 0
        self.has_work = False

    def add(self, work: Callable[[Output], PendingResponse | None], frame_size: int) -> LongAnswer:
        request = LongRequest(work, frame_size, self._now_s, self._return)
        self._waiting.append(request)
        self.has_work = True
        return LongAnswer(request)

    def begin(self, deed: Callable[[], None]) -> None:
        """Does in turns what no client has asked for."""

        def work(_: Output) -> None:
            try:
                deed()
            except Exception:
                logger.exception("a long job of the broker failed")

        self.add(work, 0)

    def run_slice(self) -> LongRequest | None:
        """Runs the next request for a slice; returns it when it is done."""
        self._admit()
        if not self._at_work:
            self._look_for_work()
            return None
        request = self._at_work.popleft()
        is_over = request.run_until(self._now_s() + SLICE_S)
        if is_over:
            self._end(request)
        elif not request.is_away:
            self._at_work.append(request)
        self._look_for_work()
        return request if is_over else None

    @property
    def has_begun(self) -> bool:
        """Whether any is active, or aside."""
        return bool(self._begun)

    @property
    def next(self) -> LongRequest | None:
        """The one that has the next slice."""
        self._admit()
        return self._at_work[0] if self._at_work else None

    def take_back(self) -> None:
        """Continues requests that were aside."""
        while self._returned:
            request = self._returned.popleft()
            request.is_away = False
            self._at_work.append(request)
        self._look_for_work()

    def remove(self, request: LongRequest) -> None:
        """Ends a request early, or lets it finish what it has begun to change."""
        if request in self._waiting:
            self._waiting.remove(request)
        elif request not in self._at_work:
            request.cancel()  # it is aside, and sees that when it comes back
        else:
            self._at_work.remove(request)
            if request.cancel():
                self._end(request)
            elif not request.is_away:
                self._at_work.append(request)
        self._look_for_work()

    def finish(self) -> None:
        """Ends all requests, each when it has finished what it has begun to change."""
        left = [one for one in self._begun if not one.cancel()]
        while left:  # In turns: one may wait for what another has begun.
            left = [one for one in left if not one.run_until(0.0)]
        self._waiting.clear()
        self._at_work.clear()
        self._begun.clear()
        self.has_work = False

    def _return(self, request: LongRequest) -> None:
        self._returned.append(request)
        self._wake()

    def _end(self, request: LongRequest) -> None:
        self._begun.discard(request)
        self._weight -= request.weight

    def _look_for_work(self) -> None:
        self.has_work = bool(self._at_work) or (bool(self._waiting) and self._has_room())

    def _has_room(self) -> bool:
        return any(map(self._fits, self._waiting))

    def _fits(self, request: LongRequest) -> bool:
        if not self._begun:
            return True
        is_light = self._weight + request.weight <= MAX_ELEMENTS_AT_WORK
        return is_light and len(self._begun) < MAX_THREADS

    def _admit(self) -> None:
        """Admits requests for which there is room, small ones before large ones."""
        for request in list(self._waiting):
            if self._fits(request):
                self._waiting.remove(request)
                self._at_work.append(request)
                self._begun.add(request)
                self._weight += request.weight
