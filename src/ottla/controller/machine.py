"""The controller of a cluster: the broker that elects leaders.

    machine.receive(event)
    batch = machine.advance()          # operations for ZooKeeper; `None` when nothing is left to do
    batch = machine.advance(results)   # and so on

After each step `take_outgoing` returns requests to brokers, and `take_answers` the responses.
Events are handled one after the other, in order of arrival. If a newer controller's epoch fences a
write, this controller drops its state and takes part in the next election.

Kafka's counterpart: `KafkaController`.
"""

import re
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.patterns import lazy_pattern
from ottla.controller import answering, membership, topic_changes
from ottla.controller.context import ControllerContext, Replica
from ottla.controller.events import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    Answer,
    ControlledShutdown,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DeletionAnswered,
    Elect,
    ElectLeaders,
    Event,
    LeaderAndIsrAnswered,
    ListReassignments,
    NodeChanged,
    RebalanceDue,
    Request,
    SessionLost,
    UpdateFeature,
)
from ottla.controller.failover import elect, is_still_ours, take_over
from ottla.controller.operations import (
    Batch,
    ControllerMovedError,
    Outcome,
    Result,
    Steps,
)
from ottla.controller.parts import ControllerOptions, Parts
from ottla.controller.requests import Outgoing
from ottla.zookeeper import paths
from ottla.zookeeper.nodes import NodeError

_BROKER = lazy_pattern(re.escape(paths.BROKER_IDS) + r"/(\d+)")
_TOPIC = lazy_pattern(re.escape(paths.TOPICS) + r"/([^/]+)")
_STATE = lazy_pattern(re.escape(paths.TOPICS) + r"/([^/]+)/partitions/(\d+)/state")

_FOLDERS: Final = {
    paths.BROKER_IDS: membership.brokers_changed,
    paths.TOPICS: topic_changes.topics_changed,
    paths.DELETE_TOPICS: topic_changes.deletions_changed,
    paths.REASSIGN_PARTITIONS: topic_changes.reassignment_asked,
    paths.PREFERRED_ELECTION: topic_changes.election_asked,
    paths.ISR_CHANGES: topic_changes.isrs_changed,
    paths.LOG_DIR_EVENTS: membership.log_dirs_failed,
}
"""The handler for a change of each node."""


class ControllerMachine:
    """`is_active`: this broker is the controller, as far as it knows."""

    def __init__(self, options: ControllerOptions) -> None:
        self.is_active = False
        self.now_ms = 0
        """The timestamp for `/controller`, which no broker evaluates."""
        self._options = options
        self._parts = Parts(options)
        self._events: deque[Event] = deque()
        self._event: Event | None = None
        self._steps: Steps[None] | None = None
        self._batch: Batch | None = None
        self._outgoing: list[Outgoing] = []
        self._answers: list[tuple[Hashable, Answer]] = []
        self._complaints: list[str] = []

    @property
    def context(self) -> ControllerContext:
        """The controller's state, read-only for callers."""
        return self._parts.context

    def receive(self, event: Event) -> None:
        if isinstance(event, SessionLost):
            # Another broker may be the controller now.
            self._resign()
            refused = [one for one in (self._event, *self._events) if isinstance(one, Request)]
            self._events.clear()
            self._end_event()
            for request in refused:
                self._answer(request, Answer(error=ErrorCode.NOT_CONTROLLER))
        else:
            self._events.append(event)

    def advance(self, results: Sequence[Result] | None = None) -> Batch | None:
        """Continues with the results of the previous batch, until the next batch for ZooKeeper."""
        assert (results is None) == (self._batch is None), "each batch has one set of results"
        while True:
            if self._steps is None:
                if not self._events:
                    return None
                self._event = self._events.popleft()
                self._steps = self._handle(self._event)
                results = None
            try:
                self._batch = self._step(self._steps, results)
            except StopIteration:
                self._end_event()
            except NodeError as error:
                self._complaints.append(str(error))
                self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
                self._parts.batch.clear()
            except ControllerMovedError:
                self._refuse(ErrorCode.NOT_CONTROLLER)
                self._resign()
                self._events.append(Elect())
            else:
                return self._batch

    def _step(self, steps: Steps[None], results: Sequence[Result] | None) -> Batch:
        if results is None:
            return next(steps)
        if any(one.outcome is Outcome.FENCED for one in results):
            return steps.throw(ControllerMovedError())
        return steps.send(tuple(results))

    def _refuse(self, error: ErrorCode) -> None:
        event = self._event
        self._end_event()
        if isinstance(event, Request):
            self._answer(event, Answer(error=error))

    def _end_event(self) -> None:
        self._event = self._steps = self._batch = None
        self._outgoing += self._parts.outgoing
        self._parts.outgoing.clear()

    def _resign(self) -> None:
        self.is_active = False
        self._parts = Parts(self._options)
        self._outgoing = []

    def take_outgoing(self) -> list[Outgoing]:
        """Returns the requests of completed events, and forgets them."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def take_answers(self) -> list[tuple[Hashable, Answer]]:
        answers, self._answers = self._answers, []
        return answers

    def take_complaints(self) -> list[str]:
        """Returns complaints about nodes with invalid content, whose events were dropped."""
        complaints, self._complaints = self._complaints, []
        return complaints

    def _answer(self, request: Request, answer: Answer) -> None:
        self._answers.append((request.pending_id, answer))

    def _handle(self, event: Event) -> Steps[None]:
        match event:
            case Elect():
                yield from self._elect()
            case NodeChanged(path=paths.CONTROLLER):
                yield from self._controller_changed()
            case NodeChanged() if self.is_active:
                yield from self._node_changed(event.path)
            case RebalanceDue() if self.is_active:
                yield from answering.rebalance_leaders(self._parts)
            case LeaderAndIsrAnswered() if self._is_current(event):
                yield from membership.replicas_answered(self._parts, event.broker, event.errors)
            case DeletionAnswered() if self._is_current(event):
                yield from self._deletion_answered(event)
            case event if isinstance(event, Request):
                answer = Answer(error=ErrorCode.NOT_CONTROLLER)
                if self.is_active:
                    answer = yield from self._do(event)
                self._answer(event, answer)
            case _:
                pass  # for a controller, which this broker no longer is

    def _elect(self) -> Steps[None]:
        if not self.is_active and (yield from elect(self._parts, self.now_ms)):
            self.is_active = True
            yield from take_over(self._parts)

    def _controller_changed(self) -> Steps[None]:
        if self.is_active:
            if (yield from is_still_ours(self._parts)):
                return
            self._resign()
        yield from self._elect()

    def _node_changed(self, path: str) -> Steps[None]:
        if path in _FOLDERS:
            yield from _FOLDERS[path](self._parts)
        elif match := _BROKER.fullmatch(path):
            yield from membership.broker_changed(self._parts, int(match[1]))
        elif match := _TOPIC.fullmatch(path):
            yield from topic_changes.topic_changed(self._parts, match[1])
        elif match := _STATE.fullmatch(path):
            place = TopicPartition(match[1], int(match[2]))
            yield from topic_changes.state_changed(self._parts, place)

    def _is_current(self, answer: LeaderAndIsrAnswered | DeletionAnswered) -> bool:
        """A response from before a broker's restart says nothing about its replicas now: it may
        report a directory that has been repaired. Kafka's controller does not compare epochs here.
        """
        broker = self.context.brokers.get(answer.broker)
        return self.is_active and broker is not None and broker.epoch == answer.broker_epoch

    def _deletion_answered(self, event: DeletionAnswered) -> Steps[None]:
        replicas = {Replica(one, event.broker): code for one, code in event.errors.items()}
        failed = [one for one, code in replicas.items() if code is not ErrorCode.NONE]
        yield from self._parts.deletion.failed(failed)
        yield from self._parts.deletion.succeeded([one for one in replicas if one not in failed])

    def _do(self, request: Request) -> Steps[Answer]:
        parts = self._parts
        match request:
            case AlterPartition():
                return (yield from answering.alter_partition(parts, request))
            case ControlledShutdown():
                return (yield from answering.controlled_shutdown(parts, request))
            case ElectLeaders():
                return (yield from answering.elect_leaders(parts, request))
            case AlterReassignments():
                return (yield from answering.alter_reassignments(parts, request))
            case ListReassignments():
                return answering.list_reassignments(parts, request)
            case AllocateProducerIds():
                return (yield from answering.allocate_producer_ids(parts, request))
            case CreateTopic():
                return (yield from answering.create_topic(parts, request))
            case CreatePartitions():
                return (yield from answering.grow_topic(parts, request))
            case DeleteTopic():
                return (yield from answering.delete_topic(parts, request))
            case UpdateFeature():
                return (yield from answering.update_feature(parts, request))
