"""Follows the metadata log of a KRaft cluster: asks its controllers for what is new in it.

As whoever is no replica: the leader keeps nothing about us, and `DescribeQuorum` does not list us.
Kafka's counterpart: an observer of `KafkaRaftClient` (KIP-595, KIP-630).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, Final

from ottla.base.addresses import Address, address_text
from ottla.base.closing import Closing
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import RefusalError, UnreachableError, UserError
from ottla.base.partitions import CLUSTER_METADATA_ID
from ottla.client.administration.quorum_status import (
    METADATA_TOPIC,
    controller_addresses,
    needed,
    no_leader,
    quorum_status,
    unreachable,
)
from ottla.client.connecting.cluster import ClientSettings, Transport
from ottla.client.connecting.connection import Connection
from ottla.metadata.following import UNKNOWN, Entry, MetadataFollower
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    SnapshotId,
    SnapshotPart,
    SnapshotTopic,
)

MAX_BYTES: Final = 8 << 20
MAX_WAIT_MS: Final = 500
NO_NODE: Final = -1

LEADS_NOT: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
MAY_NOT: Final = frozenset(
    {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)


class _LeadsNotError(Exception):
    """The controller that was asked does not lead."""


class MetadataLog(Closing):
    """Use it in a `with` statement. `follower` has the image, and how far it is."""

    def __init__(
        self,
        addresses: Sequence[Address],
        settings: ClientSettings,
        transport: Transport,
        *,
        sleep: Callable[[float], None],
        remark: Callable[[str], None],
    ) -> None:
        """Nothing is asked yet. `remark` is told of other leaders, and that there is none."""
        self.follower = MetadataFollower()
        self.leader = NO_NODE
        self.epoch = 0
        """Of the leader; Kafka refuses a fetch of a lower one, and then tells its own."""
        self._addresses = [*addresses]
        self._settings = settings
        self._transport = transport
        self._sleep = sleep
        self._remark = remark
        self._connection: Connection | None = None
        self._at: Address | None = None
        """Where the leader is, as far as is known."""
        self._has_been_led = False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def until_current(self) -> Iterator[list[Entry]]:
        """Fetches until the image has what was committed when a leader first told how much.

        Yields and raises as `changes` does, and `RefusalError` if no controller leads for a while.
        """
        target = UNKNOWN
        while target == UNKNOWN or self.follower.committed_offset < target:
            yield self._next(self._settings.pauses())
            if target == UNKNOWN:
                target = self.follower.high_watermark

    def changes(self) -> Iterator[list[Entry]]:
        """What is committed newly in each fetch, often nothing, without an end.

        Waits for a leader as long as it takes, once there was one. Raises `UnreachableError` if no
        controller answers at first, `RefusalError` by a broker or if we may not ask, and
        `CorruptionError` for damaged records.
        """
        while True:
            is_patient = self._has_been_led
            yield self._next(repeat(1.0) if is_patient else self._settings.pauses())

    def _next(self, pauses: Iterator[float]) -> list[Entry]:
        """Asks in rounds, with pauses between them."""
        is_first = True
        while True:
            failures: list[UnreachableError] = []
            asked: set[Address] = set()
            has_answer = False
            while (address := self._next_address(asked)) is not None:
                asked.add(address)
                epoch = self.epoch
                try:
                    return self._fetch(address)
                except _LeadsNotError:
                    has_answer = True
                except UnreachableError as error:
                    failures.append(error)
                self.close()
                if self.epoch > epoch and self._at is not None:
                    asked.discard(self._at)  # It leads by what is known now.
                elif self._at == address:
                    self._at = None
            if failures and not has_answer and not self._has_been_led:
                raise unreachable(failures)
            if (pause_s := next(pauses, None)) is None:
                names = ", ".join(address_text(*one) for one in sorted(asked))
                raise no_leader(f"{names} have answered; {needed()}")
            if is_first and self._has_been_led:
                self._remark(f"nobody leads the quorum after epoch {self.epoch}; waiting")
            is_first = False
            self._sleep(pause_s)

    def _next_address(self, asked: set[Address]) -> Address | None:
        first = [] if self._at is None else [self._at]
        return next((one for one in (*first, *self._addresses) if one not in asked), None)

    def _fetch(self, address: Address) -> list[Entry]:
        """What the leader at an address has; raises `_LeadsNotError`, and as `changes` does."""
        connection = self._connection
        if connection is None:
            connection = self._connection = self._transport.connect(address)
            self._check_controller(address, connection)
        follower = self.follower
        partition = FetchPartition(
            current_leader_epoch=self.epoch,
            fetch_offset=follower.end_offset,
            last_fetched_epoch=follower.end_epoch,
            partition_max_bytes=MAX_BYTES,
        )
        topic = FetchTopic(
            topic=METADATA_TOPIC, topic_id=CLUSTER_METADATA_ID, partitions=[partition]
        )
        answer = connection.ask(
            FetchRequest(
                replica_state=None, max_wait_ms=MAX_WAIT_MS, max_bytes=MAX_BYTES, topics=[topic]
            )
        )
        (found,) = self._checked(connection, answer, answer.responses)
        if found.diverging_epoch is not None and found.diverging_epoch.end_offset >= 0:
            diverging = found.diverging_epoch
            follower.diverge(connection.address, diverging.epoch, diverging.end_offset)
            return []
        if found.snapshot_id is not None and found.snapshot_id.end_offset >= 0:
            follower.learn_committed(found.high_watermark)
            return self._fetch_snapshot(connection, found.snapshot_id)
        return follower.take_records(connection.address, found.records or b"", found.high_watermark)

    def _fetch_snapshot(self, connection: Connection, wanted: Any) -> list[Entry]:
        """Nothing if the leader has deleted it meanwhile: the next fetch tells which there is."""
        content = bytearray()
        snapshot = SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch)
        while True:
            part = SnapshotPart(
                current_leader_epoch=self.epoch, snapshot_id=snapshot, position=len(content)
            )
            topic = SnapshotTopic(name=METADATA_TOPIC, partitions=[part])
            answer = connection.ask(FetchSnapshotRequest(max_bytes=MAX_BYTES, topics=[topic]))
            (found,) = self._checked(connection, answer, answer.topics)
            if found.error_code == ErrorCode.SNAPSHOT_NOT_FOUND:
                return []
            content += found.unaligned_records
            if len(content) >= found.size or not found.unaligned_records:
                break
        return self.follower.take_snapshot(
            connection.address, snapshot.end_offset, snapshot.epoch, bytes(content)
        )

    def _checked(self, connection: Connection, answer: Any, topics: Sequence[Any]) -> list[Any]:
        """The partitions of an answer; learns who leads."""
        found = [one for topic in topics for one in topic.partitions]
        error = ErrorCode(answer.error_code or (found[0].error_code if found else 0))
        if found and found[0].current_leader is not None:
            places = {one.node_id: (one.host, one.port) for one in answer.node_endpoints}
            self._learn(found[0].current_leader, places)
        if error in LEADS_NOT:
            if self._at is None:
                others = controller_addresses(connection)
                self._addresses += [one for one in others if one not in self._addresses]
            raise _LeadsNotError
        if error not in (ErrorCode.NONE, ErrorCode.SNAPSHOT_NOT_FOUND):
            hint = "; the user needs ClusterAction on the cluster" if error in MAY_NOT else ""
            raise RefusalError(
                f"{connection.address}: {error.name}: {error.description.rstrip('.')}{hint}"
            )
        if len(found) != 1:
            raise RefusalError(f"{connection.address} answered without the metadata log")
        self._has_been_led = True
        return found

    def _learn(self, leader: Any, places: dict[int, Address]) -> None:
        if leader.leader_epoch < self.epoch:
            return
        is_other = leader.leader_id not in (self.leader, NO_NODE)
        self._at = places.get(leader.leader_id, self._at if not is_other else None)
        if is_other:
            if self._has_been_led:
                self._remark(f"controller {leader.leader_id} leads epoch {leader.leader_epoch}")
            self.leader = leader.leader_id
        self.epoch = leader.leader_epoch

    def _check_controller(self, address: Address, connection: Connection) -> None:
        """Brokers follow the log themselves, and have it for nobody."""
        if connection.answers(ApiKey.FETCH_SNAPSHOT):
            return
        self.close()
        hint = "name a controller of a KRaft cluster"
        with suppress(UserError):
            status = quorum_status([address], self._transport)
            known = [address_text(*one.address) for one in status.voters if one.address]
            if known:
                hint = f"name a controller: {', '.join(known)}"
        raise RefusalError(f"{address_text(*address)} is a broker, without a metadata log; {hint}")
