"""The leader's logic: followers' positions, high watermark, ISR, and waiting clients.

Kafka's counterparts: `Partition`, `DelayedProduce`, `DelayedDeleteRecords`.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.broker.replication.delayed_operations import Delayed, DelayedOperations
from ottla.broker.replication.effects import AnswerDelayed, AssignEpoch, Effect
from ottla.broker.replication.fetches import NO_EPOCH, Fetch, Fetched
from ottla.broker.replication.in_sync_replicas import InSyncReplicas
from ottla.broker.replication.local_replica import LocalReplica
from ottla.broker.replication.replica import Replica
from ottla.broker.replication.replica_log import EpochEnd
from ottla.controller.events import AlteredAnswer, AlteredIsr
from ottla.controller.requests import PartitionOrder
from ottla.zookeeper.topics import RECOVERED

NOTHING_WRITTEN: Final = frozenset(
    {ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA}
)
"""The controller has written nothing, and the epoch is right: the committed ISR is valid."""

WAIT_FOR_ORDER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""It is unknown which ISR is valid, so the request stays pending until the controller's next order.
After any other error the request is repeated.
"""


class Brokers(Protocol):
    """What the image says of other brokers."""

    def is_live(self, broker: int) -> bool: ...

    def may_be_in_sync(self, place: TopicPartition, broker: int, epoch: int) -> bool: ...


class Leading:
    def __init__(self, local: LocalReplica, order: PartitionOrder) -> None:
        self.local = local
        self.leader_epoch = order.state.leader_epoch
        self.epoch_start = local.log.log_end_offset
        self.replicas: dict[int, Replica] = {}
        self._produces = DelayedOperations()
        """Wait for the high watermark."""
        self._deletions = DelayedOperations()
        """Wait for the low watermark."""
        self._asked: AlteredIsr | None = None
        self._take_state(order)

    def _take_state(self, order: PartitionOrder) -> None:
        self.partition_epoch = order.partition_epoch
        self.assigned = order.assignment.replicas
        self.isr = InSyncReplicas(
            committed=frozenset(order.state.isr), recovery_state=order.state.recovery_state
        )

    def follow(self, order: PartitionOrder, now_ms: float, lag_time_max_ms: float) -> None:
        """Takes another state of the same leader epoch, which replaces what was asked for.

        Followers keep what is known of them; new ones have not fetched yet.
        """
        self._take_state(order)
        self._set_followers(now_ms, lag_time_max_ms)

    def begin(self, now_ms: float, lag_time_max_ms: float) -> list[Effect]:
        self._set_followers(now_ms, lag_time_max_ms)
        return [AssignEpoch(self.local.partition, self.leader_epoch, self.epoch_start)]

    def _set_followers(self, now_ms: float, lag_time_max_ms: float) -> None:
        """Followers in the ISR count as caught up until they have had time to fetch."""
        known, self.replicas = self.replicas, {}
        for broker in self.assigned:
            if broker != self.local.broker_id:
                in_sync = broker in self.isr.committed
                caught_up_ms = now_ms if in_sync else now_ms - lag_time_max_ms - 1
                self.replicas[broker] = known.get(broker) or Replica(last_caught_up_ms=caught_up_ms)

    # Followers

    def fetched(
        self, fetch: Fetch, now_ms: float, brokers: Brokers, lag_time_max_ms: float
    ) -> tuple[Fetched, list[Effect]]:
        """Returns the response without its records, and the effects of the follower's position.

        The response has the high watermark before this fetch; the next one includes its effect.
        """
        log, follower = self.local.log, self.replicas.get(fetch.follower)
        error, diverging = self.error_of_epoch(fetch.leader_epoch), None
        if error is ErrorCode.NONE and follower is None:
            named = fetch.leader_epoch != NO_EPOCH
            error = ErrorCode.UNKNOWN_LEADER_EPOCH if named else ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif follower is not None and -1 < fetch.broker_epoch < follower.broker_epoch:
            # From the broker process before a restart (KIP-903).
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is ErrorCode.NONE:
            error, diverging = self._place_of(fetch)
        answer = Fetched(
            partition=fetch.partition,
            leader_epoch=fetch.leader_epoch,
            fetch_offset=fetch.fetch_offset,
            error=error,
            high_watermark=self.local.high_watermark,
            log_start_offset=log.log_start_offset,
            diverging=diverging,
        )
        if error is not ErrorCode.NONE or diverging is not None or follower is None:
            return answer, []
        follower.broker_epoch = max(follower.broker_epoch, fetch.broker_epoch)
        follower.fetched(fetch.fetch_offset, fetch.log_start_offset, log.log_end_offset, now_ms)
        follower.last_fetched_epoch = fetch.last_fetched_epoch
        effects = self.advance(now_ms, brokers, lag_time_max_ms)
        if self._deletions:
            effects += self.answer_deleted(brokers)
        return answer, effects

    def fetched_again(self, fetch: Fetch, now_ms: float) -> bool:
        """Takes the fetch of a follower in the ISR that has all there is, and says what it said
        last; returns whether it is one. Of all other fetches `fetched` has the response.

        In an idle cluster all are such, of each partition twice a second.
        """
        follower, end = self.replicas.get(fetch.follower), self.local.high_watermark
        if (
            follower is None
            or not fetch.fetch_offset == follower.log_end_offset == end
            or follower.leader_end_at_last_fetch != end
            or self.local.log.log_end_offset != end
            or fetch.leader_epoch != self.leader_epoch
            or fetch.broker_epoch != follower.broker_epoch
            or fetch.last_fetched_epoch != follower.last_fetched_epoch
            or fetch.log_start_offset != follower.log_start_offset
            or self.isr.asked is not None
            or fetch.follower not in self.isr.committed
            or self._deletions
        ):
            return False
        follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
        follower.last_fetch_ms = now_ms
        return True

    def error_of_epoch(self, leader_epoch: int) -> ErrorCode:
        if leader_epoch in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        is_old = leader_epoch < self.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _place_of(self, fetch: Fetch) -> tuple[ErrorCode, EpochEnd | None]:
        """Checks that the fetch offset is in the log, and that the record before it has the same
        epoch.
        """
        log = self.local.log
        if fetch.fetch_offset < log.log_start_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE, None
        if fetch.last_fetched_epoch != NO_EPOCH:
            end = log.end_offset_for(fetch.last_fetched_epoch)
            if end is None:
                return ErrorCode.OFFSET_OUT_OF_RANGE, None
            if end.epoch < fetch.last_fetched_epoch or end.end_offset < fetch.fetch_offset:
                return ErrorCode.NONE, end
        if fetch.fetch_offset > log.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE, None
        return ErrorCode.NONE, None

    @property
    def in_sync_count(self) -> int:
        return len(self.isr.committed)

    def lags(self) -> Iterator[tuple[int, int]]:
        """The lag in offsets of followers that are behind; unknown ones are left out."""
        end = self.local.log.log_end_offset
        for broker, replica in self.replicas.items():
            if 0 <= replica.log_end_offset < end:
                yield broker, end - replica.log_end_offset

    # High watermark

    def advance(self, now_ms: float, brokers: Brokers, lag_time_max_ms: float) -> list[Effect]:
        """Moves the high watermark to the lowest log end of the replicas that count.

        These are all that may be in the ISR, or are about to join it. Waiting for the latter lets a
        follower of a fast leader that is alone in its ISR catch up. Below `min.insync.replicas`
        nothing more is committed.
        """
        if not self._is_enough(self.isr.committed):
            return self._answer_committed()
        maximal = self.isr.maximal
        end = committed = self.local.log.log_end_offset
        for broker, replica in self.replicas.items():
            if replica.log_end_offset < committed and (
                broker in maximal
                or (
                    brokers.may_be_in_sync(self.local.partition, broker, replica.broker_epoch)
                    and replica.is_caught_up(end, now_ms, lag_time_max_ms)
                )
            ):
                committed = replica.log_end_offset
        return [*self.local.raise_high_watermark(committed), *self._answer_committed()]

    def _is_enough(self, isr: frozenset[int]) -> bool:
        """Unlike in Kafka, ISR members that are no longer replicas do not count: a leader before
        2.7 may have added one while the controller was removing it.
        """
        return 1 + len(self.replicas.keys() & isr) >= self.min_isr

    @property
    def min_isr(self) -> int:
        """`min.insync.replicas`, but at most the number of replicas."""
        return min(self.local.log.min_insync_replicas, len(self.replicas) + 1)

    def may_hand_over(self, brokers: Brokers) -> bool:
        """Whether enough other replicas are in sync for one of them to lead without this one, and
        to be written as before.

        Not while a change of the ISR is under way: the last one of them may be leaving it.
        """
        if self.isr.is_pending:
            return False
        others = self.replicas.keys() & self.isr.committed
        return sum(brokers.is_live(one) for one in others) >= max(self.min_isr, 1)

    # Produces with acks=all

    def error_before_append(self) -> ErrorCode:
        enough = self._is_enough(self.isr.committed)
        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS

    def wait(self, pending_id: Hashable, required_offset: int, deadline_ms: float) -> None:
        self._produces.add(pending_id, required_offset, deadline_ms)

    def _answer_committed(self) -> list[Effect]:
        enough = self._is_enough(self.isr.maximal)
        error = ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return self._answers(self._produces.take_reached(self.local.high_watermark), error)

    # DeleteRecords

    def low_watermark(self, brokers: Brokers) -> int:
        """Returns the offset below which all live replicas have deleted the records."""
        starts = [
            one.log_start_offset for broker, one in self.replicas.items() if brokers.is_live(broker)
        ]
        return min([self.local.log.log_start_offset, *starts])

    def wait_deleted(self, pending_id: Hashable, required_offset: int, deadline_ms: float) -> None:
        self._deletions.add(pending_id, required_offset, deadline_ms)

    def answer_deleted(self, brokers: Brokers) -> list[Effect]:
        if not self._deletions:
            return []
        reached = self._deletions.take_reached(self.low_watermark(brokers))
        return self._answers(reached, ErrorCode.NONE)

    # Answers

    def expire(self, now_ms: float) -> list[Effect]:
        """Times requests out. Produced records stay and may be committed later; deletions reach the
        other replicas later.
        """
        late = [*self._produces.take_due(now_ms), *self._deletions.take_due(now_ms)]
        return self._answers(late, ErrorCode.REQUEST_TIMED_OUT)

    def end(self) -> list[Effect]:
        """Fails all waiting requests when this broker ceases to lead: their outcome is unknown
        here.
        """
        waiting = [*self._produces.take_all(), *self._deletions.take_all()]
        return self._answers(waiting, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _answers(self, done: Iterable[Delayed], error: ErrorCode) -> list[Effect]:
        return [AnswerDelayed(one.pending_id, self.local.partition, error) for one in done]

    # In-sync replicas

    def wanted_isr(
        self, now_ms: float, brokers: Brokers, own_epoch: int, lag_time_max_ms: float
    ) -> AlteredIsr | None:
        """Returns the ISR change to request; `None` without a change, or while a response is
        pending. `own_epoch` is that of this broker.

        That the leader has recovered from an unclean election (KIP-704) is a change too. Kafka
        says it with the next change of the ISR.
        """
        if self.isr.is_pending:
            return None
        end, isr = self.local.log.log_end_offset, self.isr.committed
        wanted = {self.local.broker_id}
        for broker, replica in self.replicas.items():
            if broker in isr:
                stays = replica.is_caught_up(end, now_ms, lag_time_max_ms)
            else:
                place = self.local.partition
                may_join = brokers.may_be_in_sync(place, broker, replica.broker_epoch)
                stays = may_join and self._may_join(replica)
            if stays:
                wanted.add(broker)
        # One request both removes lagging members and adds others.
        if wanted == isr and self.isr.recovery_state == RECOVERED:
            return None
        self.isr = self.isr.asking_for(frozenset(wanted))
        self._asked = self._change(wanted, own_epoch)
        return self._asked

    def _may_join(self, replica: Replica) -> bool:
        """Whether the follower has all committed records, and those before this leader's epoch
        (KAFKA-2143).
        """
        return replica.log_end_offset >= max(self.local.high_watermark, self.epoch_start)

    def _change(self, wanted: Collection[int], own_epoch: int) -> AlteredIsr:
        partition = self.local.partition
        isr = tuple(one for one in self.assigned if one in wanted)
        return AlteredIsr(
            topic=partition.topic,
            partition=partition.partition,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=isr,
            epochs=tuple(self._epoch_of(one, own_epoch) for one in isr),
        )

    def _epoch_of(self, broker: int, own_epoch: int) -> int:
        replica = self.replicas.get(broker)
        return own_epoch if replica is None else replica.broker_epoch

    def altered(self, answer: AlteredAnswer) -> bool:
        """Takes the response to the pending change; returns whether to repeat the request."""
        if not self.isr.is_pending or answer.change != self._asked:
            return False
        state = answer.state
        if answer.error is ErrorCode.NONE and state is not None:
            is_current = state.leader_epoch == self.leader_epoch
            if is_current and answer.partition_epoch >= self.partition_epoch:
                self.partition_epoch = answer.partition_epoch
                self.isr = InSyncReplicas(
                    committed=frozenset(state.isr), recovery_state=state.recovery_state
                )
            return False
        if answer.error in NOTHING_WRITTEN:
            self.isr = self.isr.refused()
        return answer.error not in NOTHING_WRITTEN | WAIT_FOR_ORDER
